"""What a tool tells while it works.

Of progress the latest value counts, ten times a second at most; the values of a streaming tool are
kept whole and in order, several in one entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from loops.jsonable import jsonable
from loops.tasks import Owner

from .outbox import bounded

WINDOW = 0.1
"""Seconds between two entries of one call."""

Append = Callable[[int, int, bytes], Awaitable[object]]
"""Appends one entry: its number, how many events it has, and these. It is called with one entry at
a time, and returns when that stands in the log."""


class ProgressFeed:
    """Collects what one call tells, and appends it while the call goes on."""

    def __init__(self, call: str, append: Append, owner: Owner) -> None:
        self._call = call
        self._append = append
        self._owner = owner
        self._kept: list[Any] = []
        self._latest: list[Any] = []
        self._number = 0
        self._sender: asyncio.Task[None] | None = None
        self._is_finishing = asyncio.Event()

    def __call__(self, value: object, *, kept: bool) -> None:
        """Take a value; all that are kept arrive and in order, else the latest one matters."""
        if kept:
            self._kept.append(jsonable(value))
        else:
            self._latest = [jsonable(value)]
        if self._sender is None or self._sender.done():
            self._sender = self._owner.start(self._send_all(), name=f"progress {self._call}")

    async def _send_all(self) -> None:
        while self._kept or self._latest:
            await self._flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(WINDOW):
                    await self._is_finishing.wait()

    async def finish(self) -> None:
        """Append what was told, before the result is."""
        self._is_finishing.set()
        if self._sender is not None:
            await self._sender

    async def _flush(self) -> None:
        values = self._kept + self._latest
        self._kept, self._latest = [], []
        self._number += 1
        events = [
            bounded({"type": "tool.progress", "data": {"call": self._call, "value": value}})
            for value in values
        ]
        await self._append(self._number, len(events), b"[" + b",".join(events) + b"]")
