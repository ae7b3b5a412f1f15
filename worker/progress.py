"""What a tool tells while it works.

Of progress the latest value counts, ten times a second at most; the values of a streaming tool are
kept whole and in order, several in one entry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from loops.jsonable import jsonable
from loops.messages import ToolCall
from loops.redact import HIDDEN
from loops.tasks import Owner

from .outbox import EVENT_LIMIT, bounded

WINDOW = 0.1
"""Seconds between two entries of one call."""

ENTRY_LIMIT = EVENT_LIMIT
"""How many bytes of events share an entry; an event is never longer."""

WAITING_LIMIT = 1024 * 1024
"""From how many waiting bytes on entries follow each other at once."""

Append = Callable[[int, int, bytes], Awaitable[object]]
"""Appends one entry: its number, how many events it has, and these. It is called with one entry at
a time, and returns when that stands in the log."""


class ProgressFeed:
    """Collects what one call tells, and appends it while the call goes on."""

    def __init__(self, call: str, append: Append, owner: Owner) -> None:
        self._call = call
        self._name = ""
        self._turn: int | None = None
        self._hides = False
        self._append = append
        self._owner = owner
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._latest: list[Any] = []
        self._number = 0
        self._sender: asyncio.Task[None] | None = None
        self._is_closed = False
        self._hurries = asyncio.Event()

    def __call__(self, value: object, *, kept: bool) -> None:
        """Take a value; all that are kept arrive and in order, else the latest one matters.

        A thread that nobody waits for any more may go on telling: that is not taken.
        """
        if self._is_closed:
            return
        if kept:
            event = self._event(jsonable(value))
            self._kept.append(event)
            self._size += len(event)
        else:
            self._latest = [jsonable(value)]
        if self._size >= WAITING_LIMIT:
            self._hurries.set()
        if self._sender is None or self._sender.done():
            self._sender = self._owner.start(self._send_all(), name=f"progress {self._call}")

    def of(self, call: ToolCall, *, hides: bool) -> None:
        """Say, once it is known, which call it is, and whether nobody may see what it gives."""
        self._name, self._turn, self._hides = call.name, call.number, hides

    def close(self) -> None:
        """Take nothing more."""
        self._is_closed = True
        self._hurries.set()

    async def finish(self) -> None:
        """Take nothing more, and append what was told, before the result is."""
        self.close()
        if self._sender is not None:
            await self._sender

    async def _send_all(self) -> None:
        while self._kept or self._latest:
            events = self._entry()
            self._number += 1
            await self._append(self._number, len(events), b"[" + b",".join(events) + b"]")
            if self._size < WAITING_LIMIT and not self._is_closed:
                self._hurries.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WINDOW):
                    await self._hurries.wait()

    def _entry(self) -> list[bytes]:
        """Return the oldest events that fit into one entry; the latest progress comes last."""
        events: list[bytes] = []
        room = ENTRY_LIMIT
        while self._kept and (not events or len(self._kept[0]) <= room):
            event = self._kept.popleft()
            room -= len(event)
            self._size -= len(event)
            events.append(event)
        if not self._kept:
            events += map(self._event, self._latest)
            self._latest = []
        return events

    def _event(self, value: Any) -> bytes:
        shown = HIDDEN if self._hides else value
        event: dict[str, Any] = {"type": "tool.progress"}
        if self._turn is not None:
            event["turn"] = self._turn
        return bounded({**event, "data": {"call": self._call, "value": shown, "name": self._name}})
