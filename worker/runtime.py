"""`QueueRuntime`: the port behind which one pass of a durable run asks, calls and publishes.

Each claim of a run starts a pass, which calls the loop again from its beginning. Answered units
come from the journal; what is new is recorded, with all that was yielded before it, in one script.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from loops.errors import RunLeft
from loops.events import Event, StreamEnd, StreamStart, ToolCallResult, ToolEnd
from loops.history import repair
from loops.hook_registry import HookRegistry
from loops.jsonable import clean_text
from loops.messages import ToolCall, ToolResult, Usage
from loops.model import ModelPort, ModelRequest
from loops.output import PublishedText
from loops.question import Answer, Question
from loops.tools import Tool, arguments_of, unknown_tool_result

from .begin import Begun
from .calls import CallDesk
from .divergence import Divergence
from .journal import short_hash
from .left import Left
from .open_turn import Ask, DurableTurn
from .pace import Pace
from .publisher import Publisher
from .steps import Steps
from .waits import NO_TURN, Turn, Waits
from .wire import Part

T = TypeVar("T")

logger = logging.getLogger("loopmill.run")


class QueueRuntime:
    """One pass of a run. Made by `RunPass`, which also closes it."""

    def __init__(
        self,
        begun: Begun,
        *,
        publisher: Publisher,
        desk: CallDesk,
        waits: Waits,
        pace: Pace,
        is_draining: Callable[[], bool],
    ) -> None:
        self._begun = begun
        self._publisher = publisher
        self._calls = desk
        self._idling = waits.idling
        self._pace = pace
        self._is_draining = is_draining
        self._turns: dict[str, DurableTurn] = {}
        self._steps = Steps(begun.journal, publisher, waits.idling)
        self._divergence = Divergence(begun, publisher)
        self._text = PublishedText()
        self._waits = waits
        self.answers = waits.answers
        self.usage: Usage | None = None
        """What all turns of the pass have cost, replayed ones included."""
        self.left: asyncio.Future[Left] = asyncio.get_running_loop().create_future()
        """Resolved when the pass itself wants to end before its loop does."""

    @property
    def output(self) -> str:
        """The text that was published in the last turn."""
        return self._text.text

    @property
    def last_turn(self) -> DurableTurn | None:
        """The turn that was asked for last."""
        return next(reversed(self._turns.values()), None)

    async def publish(self, event: Event) -> None:
        """Publish what the loop yielded, unless an earlier pass has.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._text.feed(event)
        await self._publisher.publish(event)
        if isinstance(event, ToolCallResult):
            self._waits.follow(event)

    def _refuse_when_left(self) -> None:
        if self._publisher.is_left:
            raise RunLeft

    # -- turns

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> DurableTurn:
        """Return the turn that the request asks for: a recorded one, or one to be asked.

        Raises:
            ReplayDiverged: When going on might repeat a tool.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        request = replace(request, messages=tuple(repair(request.messages)))
        key, is_exact = self._begun.journal.turn_key(request)
        self._divergence.note_asked()
        recorded = self._begun.journal.turn(key)
        if recorded is None:
            await self._divergence.refuse(request)
            if self._is_draining():
                await self._leave(Left.HANDED_BACK)
        if not is_exact:
            logger.warning("a clock stands in the system prompt of turn %s: use context.now", key)
        paced, number = self._pace.over(port, self._idling.held_up), len(self._turns) + 1
        turn = DurableTurn(self, key, number, asked=Ask(request, paced), recorded=recorded)
        turn.failures = self._begun.failures.get(key, 0)
        turn.history_length = self._publisher.history_length
        self._turns[key] = turn
        self._waits.follow(StreamStart(turn.model, turn=number))
        return turn

    async def _leave(self, left: Left) -> None:
        """End the pass from within: wait until `drive` has closed the loop."""
        if not self.left.done():
            self.left.set_result(left)
        await asyncio.get_running_loop().create_future()

    def turn_opened(self, turn: DurableTurn) -> None:
        """Publish that the turn began."""
        self._publisher.open_turns.add(turn.key)
        self._idling.busy(+1)
        self._publisher.say("turn.started", {"model": turn.model}, turn=turn.number, opens=turn.key)

    async def record_turn(self, turn: DurableTurn, record: bytes, end: dict[str, Any]) -> None:
        """Record the turn whole, and publish its end."""
        self._publisher.open_turns.discard(turn.key)
        self._idling.busy(-1)
        self._publisher.say("turn.finished", end, turn=turn.number)
        await self._publisher.send("record_unit", turn.key, record)
        self.turn_ended(turn)

    def turn_ended(self, turn: DurableTurn) -> None:
        """Note that the loop has met all of the turn, recorded now or by an earlier pass."""
        for event in turn.given:
            if isinstance(event, ToolEnd):
                self._waits.follow(event)
        self._waits.follow(StreamEnd(stop_reason="", turn=turn.number))

    async def fail_pass(self, turn: DurableTurn) -> None:
        """Count the provider's failure and end the pass."""
        await self._publisher.send("fail_turn", turn.key)
        await self._leave(Left.PASS_ENDED)

    def add_usage(self, end: StreamEnd) -> None:
        """Count what a turn has cost."""
        if end.usage is not None:
            self.usage = end.usage if self.usage is None else self.usage + end.usage

    # -- calls and steps

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call as a job of its own, once, and return its one result.

        Raises:
            ReplayDiverged: When a message differs from the one that an earlier pass added.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        if tool is None:
            return unknown_tool_result(call)
        # Half a character in what a model wrote must not keep its call from being stored.
        arguments = clean_text(arguments_of(call, overrides))
        call = replace(call, arguments=arguments, id=clean_text(call.id))
        if not call.key:
            name = f"x.{short_hash(call.name, call.arguments)}"
            call = replace(call, key=self._begun.journal.numbered(name))
        if tool.inline or not self._calls.offers(tool):
            return await self._perform_here(call, tool)
        if not self._known(call.key):
            await self._start(call, tool)
        result = ToolResult.decode(await self._waits.answer(call.key))
        # Whoever answers for a lost worker knows the key alone.
        return replace(result, id=call.id, name=call.name)

    async def _perform_here(self, call: ToolCall, tool: Tool) -> ToolResult:
        """Perform a tool that this loop alone has, and record its result as a step."""
        unit = f"call:{call.key}"
        recorded = self._begun.journal.unit(unit)
        if recorded is not None:
            return ToolResult.decode(recorded)

        def sink(value: object, *, kept: bool) -> None:
            del kept  # what waits for the server is bounded, so every value arrives
            self._publisher.say("tool.progress", {"call": call.key, "value": value})

        self._idling.busy(+1)
        try:
            result = await self._calls.perform(tool, call, sink)
        finally:
            self._idling.busy(-1)
        await self._publisher.send("record_unit", unit, result.encode())
        return result

    def _known(self, key: str) -> bool:
        """Say whether an earlier pass has started the call."""
        before = self._begun.calls.get(key)
        if before is None:
            return False
        if "result" in before:
            self.answers.arrive(key, before["result"])
        return True

    def _part(self, call: ToolCall | None) -> Turn:
        """Return the turn of a call from which something is started, up to and with its block."""
        turn = None if call is None else self._turns.get(call.turn)
        if call is None or turn is None:
            return NO_TURN
        turn.has_started_call = True
        length, part = turn.part(call.block)
        return turn.key, part, length

    async def _start(self, call: ToolCall, tool: Tool) -> None:
        turn, part, length = self._part(call)
        job = self._calls.job_of(call, tool, turn=turn, part=part, length=length)
        answer = await self._publisher.send("start_call", *job)
        if answer[3] is not None:
            self.answers.arrive(call.key, answer[3])

    def known(self, call: ToolCall) -> ToolResult | None:
        """Return None: what is known of a call, the journal knows."""
        del call
        return None

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives, as JSON keeps it; a resumed run does not call it again.

        Raises:
            DuplicateName: When a step of this name is being taken already.
            LoopFailed: When the function gives what JSON cannot keep.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        return await self._steps.take(name, function)

    async def note(self, kind: str, give: Callable[[], T]) -> T:
        """Return what the function gives, recorded; a resumed run gets the same again.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        before = self.last_turn
        return await self._steps.note(f"{kind}:{before.key if before else ''}", give)

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask the outside, once, and return how the hook was closed.

        Raises:
            DuplicateName: When a hook of this label is open.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        return await self._waits.open_hook(question, registry, self._part(question.call))

    async def sleep(self, duration: timedelta) -> None:
        """Wait; a resumed run waits for what is left of it.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        before = self.last_turn
        await self._waits.sleep(before.key if before else "", duration)

    @property
    def replaying(self) -> bool:
        """Whether this pass has not yet come to where an earlier one was."""
        is_at_end = self.answers.is_caught_up and not self._begun.journal.unmet_turns()
        return not is_at_end

    # -- the end

    def say(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event of the runtime's own, with the next script."""
        self._publisher.say(kind, data)

    async def end(self, script: str, *more: Part, is_last: bool = False) -> list[Any]:
        """Send a script that ends the pass, with all that still waits; return its answer."""
        return await self._publisher.send(script, *more, is_last=is_last)
