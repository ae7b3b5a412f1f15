"""Run the calls of a turn side by side, and give their results as they come."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, cast

from .errors import LoopFailed, RunLeft
from .events import PartialToolCallResult, ToolCallResult
from .guard import Raised, describe, outcome_of
from .messages import Message, ToolCall, ToolResult, tool_message
from .runtime import partial_sink
from .tasks import Owner, Signal

CALLS_PER_TURN = 64
"""How many calls of one turn are carried out; those past it get error results."""

Arrival = ToolCallResult | PartialToolCallResult
"""What a runner gives."""
Answer = ToolCallResult | ToolResult
Schedulable = Callable[[], Awaitable[Answer]]
"""What can be scheduled: a bound call, or any function that answers like one."""


class ToolRunner:
    """The calls of a turn, which run side by side from the moment they are scheduled.

    Used as `async with`. Leaving the block waits for all calls; leaving it by an error cancels
    them, the oldest first. A tool's failure is a result. What another scheduled function raises is
    raised to whoever reads `events()`, or at the end of the block if nobody does.
    """

    def __init__(self, *, calls_per_turn: int = CALLS_PER_TURN) -> None:
        self._limit = calls_per_turn
        self._scheduled = 0
        self._owner: Owner | None = None
        self._tracked: dict[asyncio.Task[ToolCallResult], ToolCall | None] = {}
        self._arrived: deque[Arrival] = deque()
        self._failure: BaseException | None = None
        self._consumed: list[ToolResult] = []
        self._arrival = Signal()

    async def __aenter__(self) -> "ToolRunner":
        self._owner = Owner()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        owner = self._entered()
        try:
            if error is None:
                await owner.join()
        finally:
            await owner.close()
        if self._failure is not None:
            if error is None:
                raise self._take_failure()
            _note(error, self._failure)

    def schedule(self, call: Schedulable) -> asyncio.Task[ToolCallResult]:
        """Start the call at once; its task gives the result, which `events()` gives as well."""
        owner = self._entered()
        identity = _identity(call)
        self._scheduled += 1
        if self._scheduled > self._limit:
            call = self._refusal(identity)
        name = "call" if identity is None else f"call {identity.name}"
        task = owner.start(self._answer(call), name=name)
        self._tracked[task] = identity
        task.add_done_callback(self._settle)
        return task

    def add_result(self, result: Answer) -> None:
        """Add a result that is known already, as if a call had given it."""
        self._arrive(_as_event(result))

    def discard(self, task: asyncio.Task[ToolCallResult]) -> None:
        """Cancel a scheduled call and forget it: it gets no result."""
        self._tracked.pop(task, None)
        task.cancel()
        self._arrival.call()

    def events(self) -> "Results":
        """Return the results, and the partial results before them, in the order of their arrival.

        It ends when no call is open, and may be iterated again after more calls were scheduled.
        """
        return Results(self._given, self._is_idle)

    def get_tool_message(self) -> Message | None:
        """Return the message of all results that `events()` has given; None if there are none."""
        return tool_message(self._consumed)

    def _entered(self) -> Owner:
        if self._owner is None:
            raise RuntimeError("a ToolRunner is used as `async with ToolRunner() as runner`")
        return self._owner

    def _refusal(self, identity: ToolCall | None) -> Schedulable:
        text = f"not called: a turn may have at most {self._limit} calls"
        if identity is None:
            raise LoopFailed(f"{text}; this one has no identity that could be answered")
        refused = _error(identity, text)

        async def refuse() -> Answer:
            return refused

        return refuse

    async def _answer(self, call: Schedulable) -> ToolCallResult:
        # The task has a copy of the surroundings to itself, so this is set for this call alone.
        partial_sink.set(self._arrive)
        outcome = await outcome_of(partial(_awaited, call))
        if isinstance(outcome, Raised):
            raise _failure_of(outcome.error)
        return _as_event(outcome)

    def _settle(self, task: asyncio.Task[ToolCallResult]) -> None:
        if task not in self._tracked:
            # Its error, if it has one, is looked at so that Python does not report it as lost.
            _ = task.cancelled() or task.exception()
            return
        identity = self._tracked.pop(task)
        if task.cancelled():
            if identity is not None:
                self._arrive(_as_event(_cancelled(identity)))
        elif (error := task.exception()) is not None:
            self._fail(error)
        else:
            self._arrive(task.result())
        self._arrival.call()

    def _arrive(self, event: Arrival) -> None:
        self._arrived.append(event)
        self._arrival.call()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        else:
            _note(self._failure, error)

    def _take_failure(self) -> BaseException:
        failure, self._failure = self._failure, None
        return failure or RuntimeError("no scheduled call has failed")

    def _is_idle(self) -> bool:
        return not (self._arrived or self._tracked or self._failure)

    async def _given(self) -> AsyncGenerator[Arrival]:
        while not self._is_idle():
            while self._arrived:
                event = self._arrived.popleft()
                if isinstance(event, ToolCallResult):
                    self._consumed.append(event.result)
                yield event
            if self._failure is not None:
                raise self._take_failure()
            if self._tracked:
                await self._arrival.wait()


class Results:
    """The results of a runner; each iteration gives what has not been given yet."""

    def __init__(
        self, given: Callable[[], AsyncGenerator[Arrival]], is_idle: Callable[[], bool]
    ) -> None:
        self._given = given
        self._is_idle = is_idle

    def __aiter__(self) -> AsyncGenerator[Arrival]:
        return self._given()

    @property
    def is_idle(self) -> bool:
        """Whether an iteration would give nothing now; saves `merge` from trying."""
        return self._is_idle()


async def _awaited(call: Schedulable) -> Answer:
    return await call()


def _identity(call: object) -> ToolCall | None:
    identity: Any = getattr(call, "call", None)
    return identity if isinstance(identity, ToolCall) else None


def _error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.key, call.id, call.name, text, is_error=True)


def _cancelled(call: ToolCall) -> ToolResult:
    error = asyncio.CancelledError("the call was cancelled")
    return replace(_error(call, describe(error)), exception=error)


def _as_event(answer: Answer) -> ToolCallResult:
    match cast("object", answer):
        case ToolCallResult() as event:
            return event
        case ToolResult() as result:
            return ToolCallResult.of(result)
        case other:
            raise LoopFailed(
                f"a scheduled function answers with a ToolCallResult, not with {other!r}"
            )


def _note(error: BaseException, other: BaseException) -> None:
    """Let the error that is raised tell of another one, which is not."""
    if other is not error:
        error.add_note(f"another scheduled function failed, too: {describe(other)}")


def _failure_of(error: BaseException) -> BaseException:
    if isinstance(error, (Exception, asyncio.CancelledError, RunLeft)):
        return error
    # SystemExit and its like would stop the event loop if a task raised them.
    failure = LoopFailed(f"a scheduled function raised {error!r}")
    failure.__cause__ = error
    return failure
