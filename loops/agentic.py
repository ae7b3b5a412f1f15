"""The gateway's agent: its input is a caller's request, whose rounds it yields.

A round is a turn. After each the callbacks are asked, in their order; the first that acts decides
whether its reply is the answer, or another round follows.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial

from .closing import closing
from .context import Context
from .errors import Incomplete, UnknownModel
from .events import AgentEvent
from .gateway.asked import request_of
from .gateway.asking import Asked
from .gateway.call import Call
from .gateway.chain import POST, Chain
from .gateway.deciding import Decision, decide
from .gateway.ending import Ending, given_frames
from .gateway.failing import failure_of
from .gateway.given import text_body
from .gateway.neighbours import Neighbours, cause_of, failure_by
from .gateway.planning import CallbackFailed
from .gateway.relay import RelayPort
from .gateway.rounds import Mode, Outcome, RoundEnd, Surface
from .gateway.settings import GatewaySettings
from .guard import Raised, outcome_of
from .model import ModelPort
from .runtime import Runtime
from .tools import Tool

Resolve = Callable[[str], ModelPort]

GATEWAY = "loopmill.gateway"
"""The name of the gateway among agents: one that nobody can give to an agent of his own."""


class Gateway:
    """Answers callers in their own protocol.

    Args:
        resolve: Returns the model of a name; raises `UnknownModel` for one that nobody configured.
        callbacks: Whoever may take up the calls of a reply, asked in this order.
        settings: Limits of time, and rules.
        limit: How often a model may be asked again for a call; None for as its deployment says.
    """

    def __init__(
        self,
        resolve: Resolve,
        callbacks: Sequence[object] = (),
        settings: GatewaySettings | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        self._resolve = resolve
        self._limit = limit
        self._ports: dict[tuple[str, Surface], RelayPort] = {}
        self._settings = settings or GatewaySettings()
        self._neighbours = Neighbours(tuple(callbacks), self._settings.callback_timeout)

    def agent_tools(self) -> Sequence[Tool]:
        """Return none: whatever is called, a callback or the caller answers it."""
        return ()

    async def agent_loop(self, context: Context) -> AsyncIterator[AgentEvent]:
        """Yield the rounds of a call: frames, and the end of each round.

        Raises:
            AgentError: When there is no answer; an event before it says what the caller is told.
        """
        # What is said stands in the log alone, which is gone before the record is.
        context.output = ""
        asked, runtime = request_of(context), context.current_runtime()
        context.messages.clear()
        call = Call(asked, context.run, asked.body, self._limit)
        ending = Ending(runtime, self._neighbours, self._settings.post_call_rules)
        if self._neighbours.are_told:
            ending.began = await context.now()
        rounds = self._rounds(runtime, call, ending)
        async with closing(rounds):
            # What a callback raises ends the call, and the caller is told of it.
            while not isinstance(event := await outcome_of(partial(anext, rounds, None)), Raised):
                if event is None:
                    return
                yield event  # noqa: ASYNC119 - `closing` only closes
        cause = cause_of(event.error)
        said = await self._neighbours.refused(runtime, call, cause) or failure_by(cause)
        await self._neighbours.log(runtime, call, cause, ending.began)
        yield (said or failure_of(event.error)).event()
        raise event.error

    async def _rounds(
        self, runtime: Runtime, call: Call, ending: Ending
    ) -> AsyncIterator[AgentEvent]:
        admitted = await self._neighbours.admit(runtime, call)
        call = admitted.call
        if admitted.answer is not None:
            for event in given_frames(call, text_body(call, admitted.answer)):
                yield event
            yield RoundEnd(Outcome.GIVEN).event()
            return
        async with Chain(runtime, self._settings.callback_timeout) as chain:
            while True:
                port = self._port(call)
                call = replace(call, limit=call.limit or port.most_loops)
                asked = Asked(call, port, is_shown=not self._is_kept_back(call, chain))
                async with closing(events := asked.events(runtime)):
                    async for event in events:
                        yield event  # noqa: ASYNC119 - `closing` only closes
                if asked.is_cut:
                    yield RoundEnd(Outcome.CUT).event()  # noqa: ASYNC119 - the chain only cleans up
                decision = await self._decided(runtime, asked)
                async with closing(events := ending.events(asked, decision, chain)):
                    async for event in events:
                        yield event  # noqa: ASYNC119 - as above
                if decision.next is None:
                    return
                call = decision.next

    def _port(self, call: Call) -> RelayPort:
        name = str(call.body.get("model", ""))
        # What a name stands for is the same as long as the process lives.
        port = self._ports.get((name, call.surface))
        if port is None:
            port = RelayPort(self._resolved(call, name), call.surface)
            self._ports[name, call.surface] = port
        return port

    def _resolved(self, call: Call, name: str) -> ModelPort:
        try:
            return self._resolve(name)
        except UnknownModel as error:
            if name == call.asked.model:
                raise
            raise CallbackFailed(f"a callback names another model: {error}") from None

    def _is_kept_back(self, call: Call, chain: Chain) -> bool:
        """Say whether a callback may put another reply in the place of the one to come.

        One that nobody sees as it comes can be replaced by whoever takes up its own calls, too.
        """
        is_seen = call.asked.streams and call.asked.mode is not Mode.HOLD
        return chain.changes or (not is_seen and bool(self._neighbours.having(POST)))

    async def _decided(self, runtime: Runtime, asked: Asked) -> Decision:
        if asked.is_cut:
            raise Incomplete(f"the model {asked.model!r} broke off in the middle of its reply")
        callbacks = self._neighbours.callbacks if _is_looked_at(asked.call) else ()
        return await decide(runtime, callbacks, asked, self._settings.callback_timeout)


def _is_looked_at(call: Call) -> bool:
    """Say whether callbacks are asked at all: a chat's stream passes them by, as is documented."""
    asked = call.asked
    passes = asked.surface is Surface.CHAT and asked.streams and asked.mode is Mode.COMPATIBLE
    return asked.operation == "create" and not passes
