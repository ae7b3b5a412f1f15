"""Keeps processes alive: one that had been ready and died is started again, after a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from .children import Child, Children

FIRST_PAUSE = timedelta(seconds=0.5)
LONGEST_PAUSE = timedelta(seconds=10)

STEADY = timedelta(seconds=10)
"""Who has lived for so long starts over with the shortest pause."""


def pause_after(deaths: int) -> timedelta:
    """Return how long to wait before the next start, after so many deaths in a row."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(deaths - 1, 10)
    return min(doubled, LONGEST_PAUSE)


@dataclass(slots=True)
class Kept:
    """One process that is kept alive."""

    name: str
    arguments: Sequence[str]
    child: Child | None
    """None between a death and the next start."""
    since: float
    """When it was started, or is to be."""
    deaths: int = 0
    """How often it died in a row."""


class Keeper:
    """Starts processes, and starts those again that die, whenever it is told to look.

    A process that never became ready stays as it ended: what it lacks, another start will lack.
    """

    def __init__(
        self,
        children: Children,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = children
        self._environment = environment
        self._say = say
        self._clock = clock
        self._kept: list[Kept] = []

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start a process, and keep it alive from now on."""
        child = self._children.start(name, arguments, self._environment)
        self._kept.append(Kept(name, arguments, child, self._clock()))

    def look(self) -> None:
        """See who died, say so, and start again whose pause is over; returns at once."""
        for kept in list(self._kept):
            if kept.child is None:
                self._start_again(kept)
            elif kept.child.ending is not None:
                self._bury(kept, kept.child)
            elif self._clock() - kept.since > STEADY.total_seconds():
                kept.deaths = 0

    def _start_again(self, kept: Kept) -> None:
        if self._clock() >= kept.since:
            kept.child = self._children.start(kept.name, kept.arguments, self._environment)
            kept.since = self._clock()

    def _bury(self, kept: Kept, child: Child) -> None:
        end = f"{kept.name} (pid {child.pid}) ended with {child.ending}"
        last = child.last_lines()
        self._children.forget(child)
        if not (child.was_ready or kept.deaths):
            self._kept.remove(kept)
            self._say(f"{end} before it was ready; its last lines:\n{last}")
            return
        kept.deaths += 1
        pause = pause_after(kept.deaths)
        kept.child, kept.since = None, self._clock() + pause.total_seconds()
        self._say(f"{end}; it is started again in {pause.total_seconds():g} s")
