"""`QueueRuntime`: the port behind which one pass of a durable run asks, calls and publishes.

Each claim of a run starts a pass, which calls the loop again from its beginning. Answered units
come from the journal; what is new is recorded, with all that was yielded before it, in one script.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from loops.errors import DuplicateName, ReplayDiverged, RunLeft
from loops.events import Event, StreamEnd
from loops.history import repair
from loops.messages import Messages, ToolCall, ToolResult
from loops.model import ModelPort, ModelRequest
from loops.tools import Tool, arguments_of, unknown_tool_result

from .answers import Answers
from .begin import Begun
from .calls import CallDesk
from .idling import Idling
from .journal import encode_message, short_hash
from .left import Left
from .open_turn import Ask, DurableTurn
from .outbox import Outbox
from .tally import Tally
from .wire import Part
from .writer import Writer

T = TypeVar("T")

WINDOW = 0.05
"""Seconds between two flushes of a loop's yields; the first one goes at once."""

FLUSH_SIZE = 4096
"""How many characters may wait before they are flushed all the same."""

BURST = 1024 * 1024
"""How many characters wait at most: a loop that yields without a pause is flushed as it goes."""

logger = logging.getLogger("loopmill.run")


class QueueRuntime:
    """One pass of a run. Made by `drive`, which also closes it."""

    def __init__(
        self,
        begun: Begun,
        *,
        writer: Writer,
        desk: CallDesk,
        idling: Idling,
        is_draining: Callable[[], bool],
    ) -> None:
        self._begun = begun
        self._writer = writer
        self._calls = desk
        self._idling = idling
        self._is_draining = is_draining
        self._outbox = Outbox(begun.published)
        self._turns: dict[str, DurableTurn] = {}
        self._open: set[str] = set()
        self._steps: set[str] = set()
        self._has_diverged = False
        self._messages = Messages()
        self._base = len(begun.prefix)
        self._slots = 0
        self._flush_due: asyncio.TimerHandle | None = None
        self._flush_at = 0.0
        self._flushed = -WINDOW
        self.answers = Answers(begun.handed)
        self.tally = Tally()
        self.left: asyncio.Future[Left] = asyncio.get_running_loop().create_future()
        """Resolved when the pass itself wants to end before its loop does."""

    # -- the history

    def follow(self, messages: Messages) -> None:
        """Store what is added to this history in the session; the input's messages come first."""
        self._messages = messages

    def _take(self, *, with_messages: bool) -> list[Part]:
        """Return the arguments of a flush; a message goes with a unit, never ahead of its turn."""
        added = self._messages[self._base + self._slots :] if with_messages else []
        slot, self._slots = self._slots, self._slots + len(added)
        self._cancel_flush()
        self._flushed = asyncio.get_running_loop().time()
        return self._outbox.take(slot, [encode_message(message) for message in added])

    # -- publishing

    def publish(self, event: Event) -> None:
        """Publish what the loop yielded, unless an earlier pass has.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        if self._writer.is_left:
            raise RunLeft
        self.tally.add(event)
        if self._outbox.put_yield(event):
            if self._outbox.size > BURST:
                self._flush()
            else:
                self._flush_soon()

    def _flush_soon(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        at = now if self._outbox.size > FLUSH_SIZE else max(now, self._flushed + WINDOW)
        if self._flush_due is not None:
            if self._flush_at <= at:
                return
            self._flush_due.cancel()
        self._flush_at = at
        self._flush_due = loop.call_at(at, self._flush)

    def _flush(self) -> None:
        self._cancel_flush()
        if not self._outbox.is_empty:
            self._writer.submit("append_yields", self._take(with_messages=False))

    def _cancel_flush(self) -> None:
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None

    # -- turns

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> DurableTurn:
        """Return the turn that the request asks for: a recorded one, or one to be asked.

        Raises:
            ReplayDiverged: When going on might repeat a tool.
            RunLeft: When the pass owns its run no more.
        """
        request = replace(request, messages=tuple(repair(request.messages)))
        key, is_exact = self._begun.journal.turn_key(request)
        recorded = self._begun.journal.turn(key)
        if recorded is None:
            self._refuse_divergence(request)
            if self._is_draining():
                await self._leave(Left.HANDED_BACK)
        if not is_exact:
            logger.warning("a clock stands in the system prompt of turn %s: use context.now", key)
        number = len(self._turns) + 1
        turn = DurableTurn(self, key, number, asked=Ask(request, port), recorded=recorded)
        turn.failures = self._begun.failures.get(key, 0)
        turn.history_length = len(self._messages)
        self._turns[key] = turn
        self.tally.last_turn = number
        return turn

    def _refuse_divergence(self, request: ModelRequest) -> None:
        if self._open:
            return
        unmet = set(self._begun.journal.unmet_turns())
        for key, call in self._begun.calls.items():
            if key.rpartition(".")[0] in unmet and call.get("again") != b"1":
                told = orjson.loads(call["call"])
                raise ReplayDiverged(
                    f"the resumed loop asks {request.model!r} something new before its earlier "
                    f"call of {told['name']!r} with {told['arguments']!r}, which must not happen "
                    "twice; what decides a request comes from the journal: take it in context.step"
                )
        if unmet and not self._has_diverged:
            self._has_diverged = True
            self.say("run.retrying", {"reason": "diverged"})

    async def _leave(self, left: Left) -> None:
        """End the pass from within: wait until `drive` has closed the loop."""
        if not self.left.done():
            self.left.set_result(left)
        await asyncio.get_running_loop().create_future()

    def turn_opened(self, turn: DurableTurn) -> None:
        """Publish that the turn began."""
        self._open.add(turn.key)
        self._idling.busy(+1)
        self._outbox.put("turn.started", {"model": turn.model}, turn=turn.number, opens=turn.key)
        self._flush_soon()

    async def record_turn(self, turn: DurableTurn, record: bytes, end: dict[str, Any]) -> None:
        """Record the turn whole, and publish its end."""
        self._open.discard(turn.key)
        self._idling.busy(-1)
        self._outbox.put("turn.finished", end, turn=turn.number)
        flush = self._take(with_messages=not self._open)
        await self._writer.submit("record_unit", flush, turn.key, record)

    async def fail_pass(self, turn: DurableTurn) -> None:
        """Count the provider's failure and end the pass."""
        await self._writer.submit("fail_turn", self._take(with_messages=False), turn.key)
        self._writer.leave()
        await self._leave(Left.PASS_ENDED)

    def add_usage(self, end: StreamEnd) -> None:
        """Count what a turn has cost."""
        self.tally.add_usage(end.usage)

    # -- calls and steps

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call as a job of its own, once, and return its one result."""
        if tool is None:
            return unknown_tool_result(call)
        call = replace(call, arguments=arguments_of(call, overrides))
        if not call.key:
            name = f"x.{short_hash(call.name, call.arguments)}"
            call = replace(call, key=self._begun.journal.numbered(name))
        if not self._known(call.key):
            await self._start(call, tool)
        self._idling.begin_wait()
        try:
            result = ToolResult.decode(await self.answers.wait(call.key))
        finally:
            await self._idling.end_wait()
        if self.answers.hand_over(call.key):
            self._outbox.put_handed(call.key)
        # Whoever answers for a lost worker knows the key alone.
        return replace(result, id=call.id, name=call.name)

    def _known(self, key: str) -> bool:
        """Say whether an earlier pass has started the call."""
        before = self._begun.calls.get(key)
        if before is None:
            return False
        if "result" in before:
            self.answers.arrive(key, before["result"])
        return True

    async def _start(self, call: ToolCall, tool: Tool) -> None:
        turn = self._turns.get(call.turn)
        key, length, part = "", 0, b""
        if turn is not None:
            turn.has_started_call = True
            key, (length, part) = turn.key, turn.part(call.block)
        answer = await self._writer.submit(
            "start_call",
            self._take(with_messages=not self._open),
            *self._calls.job_of(call, tool, turn=key, part=part, length=length),
        )
        if answer[3] is not None:
            self.answers.arrive(call.key, answer[3])

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives, as JSON keeps it; a resumed run does not call it again.

        Raises:
            DuplicateName: When a step of this name is being taken already.
        """
        if name in self._steps:
            raise DuplicateName(
                f"a step named {name!r} is being taken already; give steps at one time their names"
            )
        self._steps.add(name)
        try:
            value: T = orjson.loads(await self._step(name, function))
        finally:
            self._steps.discard(name)
        return value

    async def _step(self, name: str, function: Callable[[], Awaitable[object]]) -> bytes:
        key = self._begun.journal.numbered(f"step:{name}")
        recorded = self._begun.journal.unit(key)
        if recorded is not None:
            return recorded
        encoded = orjson.dumps(await function())
        self._outbox.put("step.finished", {"name": name})
        flush = self._take(with_messages=not self._open)
        await self._writer.submit("record_unit", flush, key, encoded)
        return encoded

    # -- the end

    async def end(self, script: str, *more: Part) -> list[Any]:
        """Send the script that ends the pass, with all that still waits; return its answer."""
        return await self._writer.submit(script, self._take(with_messages=True), *more)

    def say(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event of the runtime's own, with the next script."""
        self._outbox.put(kind, data)

    @property
    def last_turn(self) -> DurableTurn | None:
        """The turn that was asked for last."""
        return next(reversed(self._turns.values()), None)

    def close(self) -> None:
        """Flush nothing more."""
        self._cancel_flush()
