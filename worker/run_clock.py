"""How long a run has computed, in all its passes, and how much of its time is left."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from loops.errors import RunTimedOut

from .idling import Idling


class RunClock:
    """Runs while a pass computes; what it waits does not count.

    Args:
        limit: How long the run may compute.
        before: Milliseconds that earlier passes, which left the run well, have used.
        idling: Knows how long this pass waited.
    """

    def __init__(self, limit: timedelta, before: int, idling: Idling) -> None:
        self._limit = limit
        self._before = before / 1000
        self._idling = idling
        self._began = monotonic()

    @property
    def ran(self) -> float:
        """For how many seconds the run has computed."""
        return self._before + monotonic() - self._began - self._idling.seconds

    @property
    def ran_ms(self) -> int:
        """The same in milliseconds, as a script takes it."""
        return int(self.ran * 1000)

    @property
    def left(self) -> float:
        """For how many seconds it may still compute."""
        return max(0.0, self._limit.total_seconds() - self.ran)

    def timed_out(self) -> RunTimedOut:
        """Return the error of a run whose time is over."""
        return RunTimedOut(
            f"the run was computing for longer than its timeout of {self._limit}; "
            "start it with a longer one if it needs more"
        )
