"""What a worker may do, judged by when the server last answered it.

Without a reply for a third of a lease, claims may be over without our knowing: then the next thing
to reach the server is a renewal. And since others may have been cut off as well, lapsed claims are
taken over only after half a lease of good replies, so that all have had the time to renew.
"""

import time
from collections.abc import Callable
from datetime import timedelta


class Standing:
    """A worker's standing with the server. Times are those of a clock that never jumps."""

    def __init__(self, lease: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease.total_seconds()
        self._clock = clock
        self._answered: float | None = None
        self._good_since: float | None = None

    @property
    def may_claim(self) -> bool:
        """Whether the lease is confirmed, so that something new may begin."""
        return self._answered is not None and not self._was_silent()

    @property
    def may_take_over(self) -> bool:
        """Whether lapsed claims may be taken over."""
        since = self._good_since
        return self.may_claim and since is not None and self._clock() - since >= self._lease / 2

    def renewed(self) -> None:
        """Note that a renewal was answered."""
        if self._good_since is None or self._was_silent():
            self._good_since = self._clock()
        self._answered = self._clock()

    def answered(self) -> None:
        """Note that another request was answered; after a silence it does not count."""
        if self.may_claim:
            self._answered = self._clock()

    def failed(self) -> None:
        """Note that a request was not answered."""
        self._good_since = None

    def is_late(self, sent: float) -> bool:
        """Whether the answer to what was sent then comes too late to begin what it brings."""
        return self._clock() - sent > self._lease / 2

    def _was_silent(self) -> bool:
        return self._answered is None or self._clock() - self._answered > self._lease / 3
