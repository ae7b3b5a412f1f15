"""The runtime that sees to a budget: it refuses what would be past it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from .budget import Budget, Spent, Tally
from .child_run import ChildRequest, ChildRun
from .errors import BudgetExceeded
from .events import RunWarning
from .hook_registry import HookRegistry
from .messages import Message, ToolCall, ToolResult
from .model import ModelPort, ModelRequest
from .question import Answer, Question
from .runtime import OpenTurn, Runtime
from .tools import Tool

T = TypeVar("T")

WARN_AT = 0.8
"""From which part of a limit on the run is warned, once."""


class TallyingRuntime(Runtime, Protocol):
    """A runtime that counts what is taken."""

    @property
    def tally(self) -> Tally:
        """What is taken so far."""
        ...


class BudgetedRuntime:
    """A runtime that refuses what the budget does not allow.

    Args:
        runtime: What does the work.
        budget: What it may take, with its children.
        warn: Takes the word that a limit is near.
        seconds: Says for how long the run has computed.
    """

    def __init__(
        self,
        runtime: TallyingRuntime,
        budget: Budget,
        *,
        warn: Callable[[RunWarning], None],
        seconds: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._budget = budget
        self._warn = warn
        self._seconds = seconds
        self._warned: set[str] = set()

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
        """Ask the model, unless that is past the budget.

        Raises:
            BudgetExceeded: When it is.
        """
        self._check(Spent(turns=1), but="tool_calls")
        return await self._runtime.open_turn(request, port)

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call, unless that is past the budget.

        Raises:
            BudgetExceeded: When it is.
        """
        self._check(Spent(tool_calls=1), only="tool_calls")
        return await self._runtime.call(call, tool, overrides)

    async def run_agent(self, request: ChildRequest) -> ChildRun:
        """Start the child with what is left of the budget.

        Raises:
            BudgetExceeded: When a limit is reached.
        """
        left = self._budget.less(self._check(Spent(turns=1)))
        budget = left if request.budget is None else request.budget.within(left)
        return await self._runtime.run_agent(replace(request, budget=budget))

    def _check(self, more: Spent, *, only: str = "", but: str = "") -> Spent:
        """Return what is spent, if there is room for more."""
        spent = self._runtime.tally.spent(self._seconds())
        for name, limit in self._budget.limits():
            if only in {"", name} and name != but:
                self._check_limit(name, limit, getattr(spent, name), getattr(more, name))
        return spent

    def _check_limit(self, name: str, limit: float, spent: float, more: float) -> None:
        if spent >= limit:
            raise BudgetExceeded(name, limit)
        if spent + more >= WARN_AT * limit and name not in self._warned:
            self._warned.add(name)
            self._warn(RunWarning(name, limit))

    def known(self, call: ToolCall) -> ToolResult | None:
        """Return the result that the run began with, of a call of an interrupted turn."""
        return self._runtime.known(call)

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives; a resumed run does not call it again."""
        return await self._runtime.step(name, function)

    async def note(self, kind: str, give: Callable[[], T]) -> T:
        """Return what the function gives; a resumed run gets the same again."""
        return await self._runtime.note(kind, give)

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask the outside, and return how the hook was closed."""
        return await self._runtime.open_hook(question, registry)

    async def sleep(self, duration: timedelta) -> None:
        """Wait; a resumed run waits for what is left of it."""
        await self._runtime.sleep(duration)

    @property
    def is_steered(self) -> bool:
        """Whether something was said to the run that it has not taken in."""
        return self._runtime.is_steered

    async def steers(self) -> Sequence[Message]:
        """Take in what was said to the run since its last turn."""
        return await self._runtime.steers()

    @property
    def replaying(self) -> bool:
        """Whether a resumed run has not yet come to where it was before."""
        return self._runtime.replaying

    @property
    def keeps(self) -> bool:
        """Whether the runtime itself keeps what is added to the history."""
        return self._runtime.keeps

    async def checkpoint(self, marker: Mapping[str, Any] | None = None) -> None:
        """Return when all that was yielded and added to the history so far is kept."""
        await self._runtime.checkpoint(marker)


def budgeted(
    runtime: TallyingRuntime,
    budget: Budget | None,
    *,
    warn: Callable[[RunWarning], None],
    seconds: Callable[[], float],
) -> Runtime:
    """Return the runtime under the budget, if there is one."""
    if budget is None:
        return runtime
    return BudgetedRuntime(runtime, budget, warn=warn, seconds=seconds)
