"""Budgets: how much a run may take, and the runtime that sees to it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from .errors import BudgetExceeded, SetupError
from .events import RunWarning
from .hook_registry import HookRegistry
from .messages import ToolCall, ToolResult, Usage
from .model import ModelPort, ModelRequest
from .question import Answer, Question
from .runtime import OpenTurn, Runtime
from .tools import Tool

T = TypeVar("T")

WARN_AT = 0.8
"""From which part of a limit on the run is warned, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a run may take; None is no limit.

    Raises:
        SetupError: When a limit is no number above zero.
    """

    turns: int | None = None
    tokens: int | None = None
    """Of all replies, what was asked and what was answered."""
    usd: float | None = None
    """By the configured prices; replies without a price cost nothing."""
    tool_calls: int | None = None
    seconds: float | None = None
    """Of running time; waiting does not count."""

    def __post_init__(self) -> None:
        for name, limit in self.limits():
            if not _is_limit(limit):
                raise SetupError(f"a budget's {name} is a number above zero, not {limit!r}")

    def limits(self) -> list[tuple[str, float]]:
        """Return the limits that there are."""
        told = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return [(name, limit) for name, limit in told if limit is not None]

    def within(self, other: "Budget | None") -> "Budget":
        """Return the stricter of both, limit by limit."""
        if other is None:
            return self
        ours, theirs = dict(self.limits()), dict(other.limits())
        both: dict[str, Any] = {
            name: min(limits[name] for limits in (ours, theirs) if name in limits)
            for name in ours | theirs
        }
        return Budget(**both)


class SpendingRuntime(Runtime, Protocol):
    """A runtime that knows what its replies have cost."""

    @property
    def usage(self) -> Usage | None:
        """What all replies so far have cost."""
        ...


class BudgetedRuntime:
    """A runtime that refuses what the budget does not allow.

    Args:
        runtime: What does the work.
        budget: What it may take.
        warn: Takes the word that a limit is near.
        seconds: Says for how long the run has computed.
    """

    def __init__(
        self,
        runtime: SpendingRuntime,
        budget: Budget,
        *,
        warn: Callable[[RunWarning], None],
        seconds: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._limits = dict(budget.limits())
        self._warn = warn
        self._seconds = seconds
        self._turns = 0
        self._calls = 0
        self._warned: set[str] = set()

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
        """Ask the model, unless that is past the budget.

        Raises:
            BudgetExceeded: When it is.
        """
        self._turns += 1
        usage = self._runtime.usage or Usage()
        self._check("turns", self._turns, next_one=1)
        self._check("tokens", _tokens(usage))
        self._check("usd", usage.cost or 0.0)
        self._check("seconds", self._seconds())
        return await self._runtime.open_turn(request, port)

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call, unless that is past the budget.

        Raises:
            BudgetExceeded: When it is.
        """
        self._calls += 1
        self._check("tool_calls", self._calls, next_one=1)
        return await self._runtime.call(call, tool, overrides)

    def _check(self, name: str, used: float, *, next_one: int = 0) -> None:
        limit = self._limits.get(name)
        if limit is None:
            return
        if used - next_one >= limit:
            raise BudgetExceeded(name, limit)
        if used >= WARN_AT * limit and name not in self._warned:
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
    def replaying(self) -> bool:
        """Whether a resumed run has not yet come to where it was before."""
        return self._runtime.replaying


def budgeted(
    runtime: SpendingRuntime,
    budget: Budget | None,
    *,
    warn: Callable[[RunWarning], None],
    seconds: Callable[[], float],
) -> Runtime:
    """Return the runtime under the budget, if there is one."""
    if budget is None:
        return runtime
    return BudgetedRuntime(runtime, budget, warn=warn, seconds=seconds)


def _is_limit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _tokens(usage: Usage) -> int:
    parts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    return sum(part or 0 for part in parts)
