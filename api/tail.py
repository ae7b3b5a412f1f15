"""The newest part of a log, kept for all who follow it live.

Whoever stands within it reads from memory; whoever has fallen behind it reads the log, and costs
nothing here. So a slow reader is no queue that grows.
"""

from __future__ import annotations

from .frames import Batch

LIMIT = 256 * 1024
"""Bytes of events that are kept of one run."""


class Tail:
    """The events from `start` to `end`, without a hole; empty when `start` is past `end`."""

    __slots__ = ("_batches", "end", "size", "start")

    def __init__(self, end: int) -> None:
        self.start = end + 1
        self.end = end
        self._batches: list[Batch] = []
        self.size = 0
        """How many bytes of events it holds."""

    def extend(self, batch: Batch) -> bool:
        """Take the events past the end; say False, and take none, where some would be missing."""
        if batch.first > self.end + 1:
            return False
        if batch.last > self.end:
            new = batch.after(self.end)
            self._batches.append(new)
            self.size += new.size
            self.end = new.last
            while self.size > LIMIT and len(self._batches) > 1:
                self._drop_first()
        return True

    def reaches(self, cursor: int) -> bool:
        """Say whether everything past the cursor is here."""
        return self.start - 1 <= cursor <= self.end

    def since(self, cursor: int) -> list[Batch]:
        """Return everything past a cursor that the tail reaches."""
        found: list[Batch] = []
        for batch in reversed(self._batches):
            if batch.last <= cursor:
                break
            found.append(batch.after(cursor))
        found.reverse()
        return found

    def move(self, end: int) -> None:
        """Forget everything, and stand after the event `end`."""
        self._batches.clear()
        self.size = 0
        self.start, self.end = end + 1, end

    def forget(self, cursor: int) -> None:
        """Drop what everybody has read who stands at the cursor or past it."""
        while self._batches and self._batches[0].last <= cursor:
            self._drop_first()

    def _drop_first(self) -> None:
        dropped = self._batches.pop(0)
        self.size -= dropped.size
        self.start = dropped.last + 1
