"""Answers from elsewhere (a tool job, a hook, a child run), in the order of hand-over.

An answer that reached the loop in an earlier pass reaches it in the same order again: it waits for
those that were handed over before it. A loop that does not ask for one of them this time is not
held up for long: order is kept for loops that do again what they did.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from loops.messages import ToolResult

HOOK, SLEEP, CHILD = "hook:", "sleep:", "child:"
"""What the keys of hooks, of sleeps and of children begin with; those of calls begin with their
turn's."""

OUTSIDE = (HOOK, SLEEP, CHILD)

PATIENCE = 1.0
"""Seconds that an answer waits for one before it which the loop does not come to ask for."""


class Answers:
    """What a pass waits for from outside of it."""

    def __init__(self, handed: Sequence[str]) -> None:
        self._places = {key: place for place, key in enumerate(handed)}
        self._order = list(handed)
        self._known: dict[str, bytes] = {}
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._asked: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._given: set[str] = set()
        self._is_caught_up = not handed
        self._moved = asyncio.Event()

    @property
    def waiting(self) -> list[str]:
        """The keys whose answer is not here."""
        return list(self._waiting)

    @property
    def is_outside(self) -> bool:
        """Whether the loop waits for a hook, a sleep or a child, which may take long."""
        return any(key.startswith(OUTSIDE) for key in self._waiting)

    @property
    def is_all_missing(self) -> bool:
        """Whether the loop waits for something, and nothing that it waits for is here."""
        return bool(self._waiting) and set(+self._held) == set(self._waiting)

    @property
    def is_caught_up(self) -> bool:
        """Whether all that reached the loop in an earlier pass has reached it again."""
        return self._is_caught_up or self._given.issuperset(self._order)

    def is_ready(self, key: str) -> bool:
        """Whether the answer is here, and nothing has to reach the loop before it."""
        return key in self._known and not self._missing_before(key)

    def result_of(self, key: str) -> ToolResult | None:
        """Return the result of a call, if it is here."""
        known = self._known.get(key)
        return None if known is None else ToolResult.decode(known)

    def arrive(self, key: str, value: bytes) -> None:
        """Take an answer; the first one counts, a later one of the same key is the same."""
        self._known.setdefault(key, value)
        future = self._waiting.pop(key, None)
        if future is not None and not future.done():
            future.set_result(value)

    async def wait(self, key: str) -> bytes:
        """Return the answer, when it is here and its turn has come."""
        self._held[key] += 1
        try:
            value = await self._arrived(key)
            self._asked[key] += 1
            try:
                await self._turn_of(key)
            finally:
                self._asked[key] -= 1
        finally:
            self._held[key] -= 1
        return value

    async def _arrived(self, key: str) -> bytes:
        value = self._known.get(key)
        if value is not None:
            return value
        future = self._waiting.setdefault(key, asyncio.get_running_loop().create_future())
        try:
            # Whoever gives up waiting gives up for itself alone.
            return await asyncio.shield(future)
        finally:
            if not future.done() and self._held[key] == 1:
                del self._waiting[key]

    async def _turn_of(self, key: str) -> None:
        while missing := self._missing_before(key):
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._moved.wait()
                    continue
            # One that is asked for waits in this line as well, and its turn comes.
            self._given.update(one for one in missing if not self._asked[one])
            self._moved.set()

    def hand_over(self, key: str) -> bool:
        """Note that the loop has the answer, and say whether that is new to the record."""
        self._given.add(key)
        self._moved.set()
        return key not in self._places

    def _missing_before(self, key: str) -> list[str]:
        if self._is_caught_up:
            return []
        before = self._order[: self._places.get(key, len(self._order))]
        missing = [one for one in before if one not in self._given]
        self._is_caught_up = not missing and len(before) == len(self._order)
        return missing
