"""Budgets: how much a run may take, and how much of it is taken."""

from collections import deque
from dataclasses import dataclass, fields
from typing import Any

from .errors import SetupError
from .messages import Usage


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

    def less(self, spent: "Spent") -> "Budget":
        """Return what is left of it.

        Raises:
            SetupError: When a limit is reached: no budget is of nothing.
        """
        left: dict[str, Any] = {name: limit - getattr(spent, name) for name, limit in self.limits()}
        return Budget(**left)


def tighter(one: Budget | None, other: Budget | None) -> Budget | None:
    """Return the budget that keeps to both, as far as there are any."""
    return other if one is None else one.within(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has taken of each limit that there may be, with what its children took."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    tool_calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(Spent)
            }
        )


REPLIES = 100
"""How many replies a run's record tells of, one by one."""


class Tally:
    """Counts what a run takes."""

    def __init__(self) -> None:
        self.turns = 0
        self.tool_calls = 0
        self.usage: Usage | None = None
        """What the run's own replies have cost."""
        self.children = Spent()
        self.replies: deque[dict[str, Any]] = deque(maxlen=REPLIES)
        """What each of the run's own replies was: its model, why it ended, what it has cost."""

    def note(self, model: str, stop_reason: str | None, usage: Usage | None) -> None:
        """Note what a reply was; the last `REPLIES` of them are kept."""
        cost = None if usage is None else usage.model_dump(exclude_none=True)
        self.replies.append({"model": model, "stop_reason": stop_reason, "usage": cost})

    def spend(self, usage: Usage | None) -> None:
        """Count what a reply has cost."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def spent(self, seconds: float) -> Spent:
        """Return what was taken so far; `seconds` is how long the run has computed."""
        usage = self.usage or Usage()
        own = Spent(
            turns=self.turns,
            tokens=_tokens(usage),
            usd=usage.cost or 0.0,
            tool_calls=self.tool_calls,
            seconds=seconds,
        )
        return own + self.children


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
