"""Whether the server has room for more: new runs are refused before it is full, not after."""

from __future__ import annotations

import re
import time
from datetime import timedelta

from redis.exceptions import ResponseError

from loops.errors import MemoryFull

from .link import Link

LOOK_AGAIN = 1.0
"""Seconds for which what the server said counts."""

_FIELD = re.compile(rb"^(used_memory|maxmemory):(\d+)", re.MULTILINE)


class MemoryGuard:
    """Asks the server for its memory, once a second at most."""

    def __init__(self, link: Link, limit: float) -> None:
        self._link = link
        self._limit = limit
        self._looked = float("-inf")
        self._share = 0.0

    async def refuse_when_full(self) -> None:
        """Return when there is room, or when the server has no limit.

        Raises:
            MemoryFull: When more than the configured share of `maxmemory` is in use.
        """
        if time.monotonic() - self._looked > LOOK_AGAIN:
            self._looked = time.monotonic()
            self._share = await self._used()
        if self._share > self._limit:
            raise MemoryFull(
                f"the server uses {self._share:.0%} of its memory; new runs are taken again "
                f"below {self._limit:.0%}",
                retry_after=timedelta(seconds=5),
            )

    async def _used(self) -> float:
        try:
            told: bytes = await self._link.command("INFO", "memory")
        except ResponseError:
            # Not every server tells; then its own refusal is what counts.
            return 0.0
        fields = {name: int(value) for name, value in _FIELD.findall(told)}
        return fields[b"used_memory"] / fields[b"maxmemory"] if fields.get(b"maxmemory") else 0.0
