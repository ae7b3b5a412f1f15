"""How far a run of the default loop may go; pure."""

from dataclasses import dataclass
from typing import Any, TypedDict

import orjson

from loops.errors import BudgetExceeded, SetupError, TurnLimitExceeded
from loops.jsonable import jsonable

from .turn import Turn

REPEATS = 5
"""How often in a row a model may make the very same calls; the last time they are refused."""


class LimitOptions(TypedDict, total=False):
    """The limits by name; see the fields of `Limits`."""

    steps: int | None
    cost: float | None
    repeats: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a run may go; None is no limit.

    Raises:
        SetupError: When a limit is no number above zero.
    """

    steps: int | None = None
    """How many replies; None for the agent's `max_turns`."""
    cost: float | None = None
    """By the price that the loop was given."""
    repeats: int | None = REPEATS
    """How often in a row the same calls may be made."""

    def __post_init__(self) -> None:
        for name in ("steps", "cost", "repeats"):
            limit: Any = getattr(self, name)
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and not (is_number and limit > 0):
                raise SetupError(f"the limit of {name} is a number above zero, not {limit!r}")

    def check(self, *, steps: int, cost: float, most: int) -> None:
        """Pass if there may be another reply.

        Raises:
            TurnLimitExceeded: When there were as many as there may be.
            BudgetExceeded: When they have cost as much as they may.
        """
        limit = self.steps or most
        if steps >= limit:
            mend = "limits(steps=…)" if self.steps else "max_turns"
            raise TurnLimitExceeded(limit, mend=f"raise {mend} if it needs more")
        if self.cost is not None and cost >= self.cost:
            raise BudgetExceeded("usd", self.cost)


class Repetition:
    """Counts how often in a row a model makes the same calls."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._last = b""
        self._count = 0

    def note(self, turn: Turn) -> None:
        """Take the calls of a reply."""
        made = [[jsonable(block.get("name")), jsonable(block.get("input"))] for block in turn.calls]
        told = orjson.dumps(made, option=orjson.OPT_SORT_KEYS)
        self._count = self._count + 1 if told == self._last else 1
        self._last = told

    @property
    def is_refused(self) -> bool:
        """Whether the calls are not carried out any more."""
        return self._limit is not None and self._count >= self._limit

    @property
    def is_over(self) -> bool:
        """Whether the model makes them even so."""
        return self._limit is not None and self._count > self._limit

    @property
    def count(self) -> int:
        """How often in a row they were made."""
        return self._count
