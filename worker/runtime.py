"""`QueueRuntime`: the port behind which one pass of a durable run asks, calls and publishes.

Each claim of a run starts a pass, which calls the loop again from its beginning. Answered units
come from the journal; what is new is recorded, with all that was yielded before it, in one script.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import orjson

from loops.child_run import ChildRequest, ChildRun
from loops.errors import RunLeft
from loops.events import AgentEvent, ToolCallResult
from loops.hook_registry import HookRegistry
from loops.jsonable import clean_text
from loops.messages import Message, ToolCall, ToolResult
from loops.model import ModelPort, ModelRequest
from loops.output import PublishedText
from loops.question import Answer, Question
from loops.redact import HIDDEN, Redactor
from loops.tools import Tool, arguments_of, unknown_tool_result

from .begin import Begun
from .calls import CallDesk
from .children import Children
from .journal import short_hash
from .open_turn import DurableTurn
from .publisher import Publisher
from .steers import Steers
from .steps import Steps
from .turns import Turns
from .waits import Waits
from .wire import Part

T = TypeVar("T")


class QueueRuntime:
    """One pass of a run. Made by `RunPass`, which also closes it."""

    def __init__(
        self,
        begun: Begun,
        *,
        publisher: Publisher,
        turns: Turns,
        desk: CallDesk,
        waits: Waits,
        children: Children,
    ) -> None:
        self._begun = begun
        self._publisher = publisher
        self._calls = desk
        self._idling = waits.idling
        self._turns = turns
        self._steps = Steps(begun.journal, publisher, waits.idling)
        self._text = PublishedText()
        self._redactor = Redactor(desk.known_tools)
        self._waits = waits
        self._children = children
        self._marks = 0
        self.steering = Steers(begun, publisher, lambda: turns.last_key)
        self.answers = waits.answers
        self.tally = turns.tally
        """What the pass has taken, what was replayed included."""
        self.left = turns.left
        """Resolved when the pass itself wants to end before its loop does."""

    @property
    def output(self) -> str:
        """The text that was published in the last turn."""
        return self._text.text

    @property
    def last_turn(self) -> DurableTurn | None:
        """The turn that was asked for last."""
        return self._turns.last

    async def publish(self, event: AgentEvent) -> None:
        """Publish what the loop yielded, unless an earlier pass has.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._text.feed(event)
        shown = self._redactor.shown(event)
        if shown is not None:
            await self._publisher.publish(shown)
        if isinstance(event, ToolCallResult):
            self._waits.follow(event)

    def _refuse_when_left(self) -> None:
        if self._publisher.is_left:
            raise RunLeft

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> DurableTurn:
        """Return the turn that the request asks for: a recorded one, or one to be asked.

        Raises:
            ReplayDiverged: When going on might repeat a tool.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        return await self._turns.open(request, port)

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call as a job of its own, once, and return its one result.

        Raises:
            ReplayDiverged: When a message differs from the one that an earlier pass added.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        self.tally.tool_calls += 1
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
        is_told = (result.id, result.name) == (call.id, call.name)
        return result if is_told else replace(result, id=call.id, name=call.name)

    async def _perform_here(self, call: ToolCall, tool: Tool) -> ToolResult:
        """Perform a tool that this loop alone has, and record its result as a step."""
        unit = f"call:{call.key}"
        recorded = self._begun.journal.unit(unit)
        if recorded is not None:
            return ToolResult.decode(recorded)

        def sink(value: object, *, kept: bool) -> None:
            del kept  # what waits for the server is bounded, so every value arrives
            shown = HIDDEN if tool.redact is True else value
            told = {"call": call.key, "value": shown, "name": call.name}
            self._publisher.say("tool.progress", told, turn=call.number)

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

    async def _start(self, call: ToolCall, tool: Tool) -> None:
        turn, part, length = self._turns.part(call)
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
        return await self._steps.note(f"{kind}:{self._turns.last_key}", give)

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask the outside, once, and return how the hook was closed.

        Raises:
            DuplicateName: When a hook of this label is open.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        return await self._waits.open_hook(question, registry, self._turns.part(question.call))

    async def sleep(self, duration: timedelta) -> None:
        """Wait; a resumed run waits for what is left of it.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        await self._waits.sleep(self._turns.last_key, duration)

    async def run_agent(self, request: ChildRequest) -> ChildRun:
        """Start a run of another agent, once, and return what came of it.

        Raises:
            UnknownLoop: When the app has no such agent.
            ChildFailed: When runs would nest too deep.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        child = await self._children.run(request)
        self.tally.children += child.spent
        return child

    @property
    def is_steered(self) -> bool:
        """Whether something was said to the run that it has not taken in."""
        return self.steering.is_waiting

    async def steers(self) -> Sequence[Message]:
        """Take in what was said to the run since its last turn; a resumed run takes the same.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        return await self.steering.take()

    @property
    def replaying(self) -> bool:
        """Whether this pass has not yet come to where an earlier one was."""
        is_at_end = self.answers.is_caught_up and not self._begun.journal.unmet_turns()
        return not is_at_end

    @property
    def keeps(self) -> bool:
        """Whether what is added to the history is kept: it becomes the session's."""
        return True

    async def checkpoint(self, marker: Mapping[str, Any] | None = None) -> None:
        """Return when all that was yielded and added to the history so far is kept.

        Raises:
            ReplayDiverged: When a message differs from the one that an earlier pass added.
            RunLeft: When the pass owns its run no more.
        """
        self._refuse_when_left()
        if marker is None:
            await self._publisher.send("append_yields")
            return
        place, told = self._begun.window.marked(marker, self._marks)
        self._marks += 1
        await self._publisher.send("mark_session", *place, orjson.dumps(told))

    # -- the end

    def close(self) -> None:
        """Record no turn that is left from now on: the loop is being closed."""
        self._turns.close()

    def say(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event of the runtime's own, with the next script."""
        self._publisher.say(kind, data)

    async def end(self, script: str, *more: Part, is_last: bool = False) -> list[Any]:
        """Send a script that ends the pass, with all that still waits; return its answer."""
        return await self._publisher.send(script, *more, is_last=is_last)
