"""The runtime of one process: models are asked and tools are called right here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Event as Flag
from types import MappingProxyType
from typing import Any, TypeVar

from .approval import acting_on
from .budget import Tally
from .child_run import ChildRequest, ChildRun
from .closing import close
from .errors import DuplicateName, UnknownLoop
from .events import AgentEvent, ModelEvent, PartialToolCallResult, RunSteered, StreamEnd
from .fold import fold
from .gate import within_concurrency
from .history import repair
from .hook_registry import HookRegistry
from .messages import Message, ToolCall, ToolResult, Usage, tool_message
from .model import ModelPort, ModelRequest, ask, stamp
from .perform import perform
from .question import Answer, Question
from .runtime import OpenTurn, Runtime, partial_sink, set_fallback
from .tool_context import ProgressSink, ToolContext, running_call
from .tools import Tool, arguments_of, unknown_tool_result

T = TypeVar("T")

TOOL_TIMEOUT = timedelta(minutes=5)
"""How long a tool may take that names no limit of its own."""


def _nobody(event: AgentEvent) -> None:
    """Nobody reads the run's events."""
    del event


class LocalRuntime:
    """What a loop asks for is done at once, and nothing of it is kept beyond the process.

    Args:
        tool_context: What every tool of the run may know.
        tell: Takes what the runtime has to tell, between the loop's own events.
        outer: The runtime of the run inside of which this one is; its hooks are that one's.
        known: The results that the run begins with, by the key of the call.
        child: Runs another agent.
    """

    def __init__(
        self,
        tool_context: ToolContext | None = None,
        *,
        tell: Callable[[AgentEvent], None] = _nobody,
        outer: Runtime | None = None,
        known: Mapping[str, ToolResult] = MappingProxyType({}),
        child: Callable[[ChildRequest], Awaitable[ChildRun]] | None = None,
    ) -> None:
        self._tool_context = tool_context or ToolContext()
        self._tell = tell
        self._outer = outer
        self._known = known
        self._child = child
        self._last: _LocalTurn | None = None
        self._steps: set[str] = set()
        self._steers: list[Message] = []
        self.tally = Tally()

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
        """Ask the model, with a history that keeps the pairing law."""
        fit = replace(request, messages=tuple(repair(request.messages)))
        self.tally.turns += 1
        self._last = _LocalTurn(self.tally.turns, ask(port, fit), self.tally.spend)
        return self._last

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Perform the call here, and hand its partial results to whoever wants them."""
        self.tally.tool_calls += 1
        if tool is None:
            result = unknown_tool_result(call)
        else:
            acting = acting_on(call, self._tool_context)
            context = replace(acting, cancelled=Flag(), sink=_partials(call, tool))
            arguments = arguments_of(call, overrides)
            async with within_concurrency(tool):
                result = await perform(tool, arguments, context, timeout=TOOL_TIMEOUT)
        if self._last is not None:
            self._last.keep(call, result)
        return result

    def known(self, call: ToolCall) -> ToolResult | None:
        """Return the result that the run began with, of a call of an interrupted turn."""
        return self._known.get(call.key)

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives.

        Raises:
            DuplicateName: When a step of this name is being taken already.
        """
        if name in self._steps:
            raise DuplicateName(
                f"a step named {name!r} is being taken already; give steps at one time their names"
            )
        self._steps.add(name)
        try:
            return await function()
        finally:
            self._steps.discard(name)

    async def note(self, kind: str, give: Callable[[], T]) -> T:
        """Return what the function gives."""
        del kind
        return give()

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask whoever reads the run's events, and return how the hook was closed.

        Raises:
            DuplicateName: When a hook of this label is open.
        """
        if self._outer is not None:
            # There it is the call around this run that waits.
            around = replace(question, call=running_call.get(None))
            return await self._told(question, self._outer.open_hook(around, registry))
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with registry.live(question, answer.set_result):
            return await self._told(question, _in_time(answer, question.expires))

    async def _told(self, question: Question, answer: Awaitable[Answer]) -> Answer:
        self._tell(question.opened())
        given = await answer
        event = given.event(question)
        if event is not None:
            self._tell(event)
        return given

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        await asyncio.sleep(duration.total_seconds())

    async def run_agent(self, request: ChildRequest) -> ChildRun:
        """Run another agent right here.

        Raises:
            UnknownLoop: When there is no such agent.
            ChildFailed: When runs would nest too deep.
        """
        if self._child is None:
            raise UnknownLoop(str(request.agent))
        child = await self._child(request)
        # While it ran, this run's own clock did, too.
        self.tally.children += replace(child.spent, seconds=0.0)
        return child

    def steer(self, message: Message) -> None:
        """Say something to the run."""
        self._steers.append(message)

    @property
    def is_steered(self) -> bool:
        """Whether something was said to the run that it has not taken in."""
        return bool(self._steers)

    async def steers(self) -> Sequence[Message]:
        """Take in what was said to the run since its last turn."""
        steers = self.left_steers()
        if steers:
            self._tell(RunSteered(len(steers)))
        return steers

    def left_steers(self) -> list[Message]:
        """Take what was said and is not taken in, at the end of the run."""
        steers, self._steers = self._steers, []
        return steers

    @property
    def replaying(self) -> bool:
        """Whether something is replayed: never, here."""
        return False

    @property
    def keeps(self) -> bool:
        """Whether something is kept: nothing outlives this process."""
        return False

    async def checkpoint(self, marker: Mapping[str, Any] | None = None) -> None:
        """Return at once."""

    @property
    def last_turn(self) -> list[Message]:
        """The last turn so far: the blocks that are complete, and the results that have come."""
        return [] if self._last is None else self._last.messages()


async def _in_time(answer: asyncio.Future[Answer], limit: timedelta) -> Answer:
    try:
        async with asyncio.timeout(limit.total_seconds()):
            return await answer
    except TimeoutError:
        return Answer("expired")


class _LocalTurn:
    def __init__(
        self, number: int, reply: AsyncIterator[ModelEvent], spend: Callable[[Usage | None], None]
    ) -> None:
        self.number = number
        self.key = f"turn:{number}"
        self._reply = reply
        self._spend = spend
        self._seen: list[ModelEvent] = []
        self._results: list[ToolResult] = []

    async def events(self) -> AsyncIterator[ModelEvent]:
        try:
            async for event in self._reply:
                stamped = stamp(event, key=self.key, number=self.number)
                self._seen.append(stamped)
                if isinstance(event, StreamEnd):
                    self._spend(event.usage)
                yield stamped
        finally:
            await close(self._reply)

    async def leave(self) -> None:
        """Nothing is kept of a turn here, so there is nothing to finish."""

    def keep(self, call: ToolCall, result: ToolResult) -> None:
        if call.turn == self.key:
            self._results.append(result)

    def messages(self) -> list[Message]:
        reply = fold(self._seen, closed_only=True)
        results = tool_message(self._results)
        return [each for each in (reply, results) if each is not None and each.content]


def _partials(call: ToolCall, tool: Tool) -> ProgressSink:
    target = partial_sink.get()

    def sink(value: object, *, kept: bool) -> None:
        del kept  # nothing is slower than the tool here, so every value arrives
        if target is not None:
            target(PartialToolCallResult(call.key, value, tool.name, turn=call.number))

    return sink


set_fallback(LocalRuntime)
