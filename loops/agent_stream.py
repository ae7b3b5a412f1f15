"""The run of an agent in this process, as whoever reads its events has it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from .blocked import BlockedFold
from .budget import Budget, Spent
from .budgeted import budgeted
from .buffer import Buffer
from .child_run import NESTING, ChildRequest, ChildRun
from .closing import OpenEvents, closing, closing_opened, note_opened
from .context import Context
from .errors import AgentError, ChildFailed, LoopFailed, RunTimedOut, UnknownLoop
from .events import AgentEvent, ChildFinished, ChildStarted, HookEvent
from .guard import Raised, describe, outcome_of
from .hook_registry import HookRegistry, active_registry, join_hook_registry, use_hook_registry
from .interrupted import take_interrupted
from .local import LocalRuntime
from .loop_shape import Loop, begin
from .messages import Message, MessageLike, Messages, Usage, as_message
from .output import PublishedText, read_output, told_output
from .runtime import Scope, active_scope, surround
from .tasks import Owner
from .wire import as_event


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run in this process came to."""

    output: Any
    messages: Messages
    events: list[AgentEvent]
    usage: Usage


class AgentStream(OpenEvents[AgentEvent]):
    """The events of a run in this process.

    Used as `async with`; leaving the block ends the run and cancels its tools. A reader that gives
    up waiting for an event loses nothing. What the loop raises is raised here, after the events
    before it.
    """

    def __init__(
        self,
        loop: Loop,
        context: Context,
        *,
        agent: object | None = None,
        buffer: int | None = None,
        hook_registry: HookRegistry | None = None,
        child: "StartChild | None" = None,
    ) -> None:
        self.context = context
        self.hook_registry = hook_registry or active_registry() or HookRegistry()
        """Where the run's hooks are found, also by another task."""
        self._loop = loop
        self._agent = agent
        context.interrupted = take_interrupted(context.messages)
        self._events = Buffer(self._yielded, size=buffer)
        around = active_scope()
        self._runtime = LocalRuntime(
            context.tool_context(),
            tell=self._events.put,
            outer=None if around is None else around.runtime,
            known=context.interrupted.results if context.interrupted else {},
            child=self._run_child,
        )
        self._starts = [each for each in (child, around and around.start_child) if each]
        self._children = Owner()
        self._nesting = 0 if around is None else around.nesting + 1
        self._has_begun = self._is_over = False
        self._text = PublishedText()
        self._blocked = BlockedFold()
        self._told: deque[AgentEvent] = deque()
        self._inside = use_hook_registry(self.hook_registry)
        self._began = monotonic()

    async def __aenter__(self) -> Self:
        self._inside.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._inside.__exit__(None, None, None)
        finally:
            await super().__aexit__(kind, error, trace)

    async def __anext__(self) -> AgentEvent:
        """Return the next event."""
        if not self._has_begun:
            self._has_begun = True
            note_opened(self)
        event = self._told.popleft() if self._told else await anext(self._events)
        self._text.feed(event)
        blocked = self._blocked.feed(event)
        if blocked is not None:
            self._told.append(blocked)
        return event

    async def aclose(self) -> None:
        """End the run, if it has not ended, and wait until nothing of it is left."""
        await self._events.aclose()
        self._keep_steers()

    async def _yielded(self) -> AsyncIterator[AgentEvent]:
        # This runs in a task of its own from its first step to its last, so the scope ends with it.
        runtime = budgeted(
            self._runtime,
            self.context.budget,
            warn=self._events.put,
            seconds=self._seconds,
        )
        self._began = monotonic()
        start = self._starts[0] if self._starts else None
        surround(Scope(runtime, self.context, self._agent, self._nesting, start))
        join_hook_registry(self.hook_registry)
        loop = begin(self._loop, self.context)
        try:
            async with closing_opened(), closing(loop):
                async for yielded in loop:
                    event = as_event(yielded)
                    if event is not None:
                        yield event  # noqa: ASYNC119 - `closing` only closes
        finally:
            await self._children.close()
            self._is_over = True
            self._keep_steers()

    def _keep_steers(self) -> None:
        """Let what the loop did not take in stand in the history, for whoever goes on with it."""
        messages, left = self.context.messages, self._runtime.left_steers()
        last = messages[-1] if messages else None
        is_deferred = last is not None and any(block.deferred for block in last.tool_results)
        # A turn that is to be gone on with stays the end.
        at = len(messages) - 2 if is_deferred else len(messages)
        messages[at:at] = left

    def _child_of(self, request: ChildRequest) -> "tuple[str, AgentStream]":
        """Return the name and a run of the agent: the app knows names, an agent knows itself.

        Raises:
            UnknownLoop: When neither does.
        """
        unknown = UnknownLoop(str(request.agent))
        for start in (*self._starts, _start_alone):
            try:
                return start(request)
            except UnknownLoop as error:
                unknown = error if error.known else unknown
        raise unknown

    async def _run_child(self, request: ChildRequest) -> ChildRun:
        """Return what comes of a run inside of this one."""
        name, stream = self._child_of(request)
        if self._nesting >= NESTING:
            raise ChildFailed(name, "", f"runs nest {NESTING} deep at most")
        self._events.put(ChildStarted("", name))
        # It ends with this run, also when whoever waits for it does not.
        work = outcome_of(partial(_drained, stream, request.timeout))
        outcome = await self._children.start(work, name=f"child {name}")
        child = ChildRun(agent=name, usage=stream.usage, spent=stream.spent)
        if isinstance(outcome, Raised):
            child = replace(child, status="failed", failure=_failure(outcome.error))
        else:
            child = replace(child, output=stream.told)
        self._events.put(ChildFinished("", name, child.status))
        return child

    def _seconds(self) -> float:
        return monotonic() - self._began

    def steer(self, message: MessageLike) -> None:
        """Say something to the run: its loop takes it in before its next turn.

        A run that would come to its end takes another turn for it. Where the loop does not ask
        again, it stands at the end of the history.
        """
        self._runtime.steer(as_message(message))
        if self._is_over:
            self._keep_steers()

    @property
    def spent(self) -> Spent:
        """What the run has taken of each limit of a budget, with its children."""
        return self._runtime.tally.spent(self._seconds())

    @property
    def messages(self) -> Messages:
        """The history: the run's own list, which may be ahead of the events read so far."""
        return self.context.messages

    @property
    def last_turn(self) -> list[Message]:
        """The last turn as far as it came, also when it failed: complete blocks and results.

        What is missing for a whole turn is mended when the history is sent to a model again.
        """
        return self._runtime.last_turn

    @property
    def blocked(self) -> bool:
        """Whether all open work waited for hooks when the last event was read."""
        return self._blocked.is_blocked

    @property
    def deferred_hooks(self) -> list[HookEvent]:
        """The hooks that were open when the last event was read, as they asked."""
        return list(self._blocked.hooks.values())

    @property
    def usage(self) -> Usage:
        """What all replies so far have cost."""
        return self._runtime.tally.usage or Usage()

    @property
    def told(self) -> str:
        """The output as text: what the loop set, or the text of the last turn that was read."""
        given = self.context.output
        return self._text.text if given is None else told_output(given)

    @property
    def output(self) -> Any:
        """What the loop set as the output, or the text of the last turn that was read here.

        Raises:
            ValidationError: When the text does not fit the run's output type.
        """
        if self.context.output is not None:
            return self.context.output
        return read_output(self._text.text, self.context.output_type)


async def _drained(stream: AgentStream, limit: timedelta | None) -> None:
    scope = asyncio.timeout(None if limit is None else limit.total_seconds())
    try:
        async with scope, stream:
            async for _ in stream:
                pass
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise RunTimedOut(f"the run took longer than its timeout of {limit}") from error


def _failure(error: BaseException) -> str:
    code = error.code if isinstance(error, AgentError) else LoopFailed.code
    return f"{code}: {describe(error)}"


def _start_alone(request: ChildRequest) -> tuple[str, AgentStream]:
    """Return the class and a run of an agent that is given itself."""
    agent = request.agent
    if not isinstance(agent, Runs):
        raise UnknownLoop(str(agent))
    stream = agent.run(messages=request.messages, budget=request.budget, metadata=request.metadata)
    return type(agent).__name__, stream


@runtime_checkable
class Runs(Protocol):
    """An agent, as far as a run needs it that starts another one."""

    def run(
        self, *, messages: Messages, budget: Budget | None, metadata: Mapping[str, Any]
    ) -> AgentStream:
        """Return a run, which has not begun."""
        ...


StartChild = Callable[[ChildRequest], tuple[str, AgentStream]]
"""Gives the name of the agent that is asked for, and a run of it that has not begun."""
