"""Reads a stream in a thread, so that whoever draws it can also look at other things."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

from api.client import ApiError, Seen


class Feed:
    """The events of a run as they arrive; the thread ends with the process at the latest."""

    def __init__(self, events: Iterator[Seen]) -> None:
        self.is_over = False
        """Whether all events were given."""
        self._arrived: SimpleQueue[Seen | ApiError | None] = SimpleQueue()
        Thread(target=self._read, args=(events,), name="feed", daemon=True).start()

    def news(self, *, within: timedelta) -> Iterator[Seen]:
        """Yield what arrives within the time, and return at its end or at the end of the stream.

        Raises:
            ApiError: When the stream broke off.
        """
        deadline = monotonic() + within.total_seconds()
        while not self.is_over:
            try:
                arrived = self._arrived.get(timeout=max(deadline - monotonic(), 0.001))
            except Empty:
                return
            if isinstance(arrived, ApiError):
                raise arrived
            if arrived is None:
                self.is_over = True
            else:
                yield arrived
                if monotonic() > deadline:
                    return

    def _read(self, events: Iterator[Seen]) -> None:
        try:
            for seen in events:
                self._arrived.put(seen)
        except ApiError as error:
            self._arrived.put(error)
        else:
            self._arrived.put(None)
