"""What a tool tells while it works.

Of progress the latest value counts, ten times a second at most; the values of a streaming tool are
kept whole and in order, several in one entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from loops.jsonable import jsonable
from loops.tasks import Owner

WINDOW = 0.1
"""Seconds between two entries of one call."""


class ProgressFeed:
    """Collects what one call tells, and appends it while the call goes on."""

    def __init__(
        self, call: str, append: Callable[[int, bytes], Awaitable[object]], owner: Owner
    ) -> None:
        self._call = call
        self._append = append
        self._owner = owner
        self._kept: list[Any] = []
        self._latest: list[Any] = []
        self._sender: asyncio.Task[None] | None = None

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
            # A flush that was begun is brought to its end, so that nothing told is lost.
            await asyncio.shield(self._owner.start(self._flush(), name="progress flush"))
            await asyncio.sleep(WINDOW)

    async def finish(self) -> None:
        """Append what was told, before the result is."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
        await self._flush()

    async def _flush(self) -> None:
        values = self._kept + self._latest
        self._kept, self._latest = [], []
        if values:
            events = [
                {"type": "tool.progress", "data": {"call": self._call, "value": value}}
                for value in values
            ]
            await self._append(len(events), orjson.dumps(events))
