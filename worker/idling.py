"""Frees a run's slot while all that the run does is wait, and takes one again before it goes on."""

from __future__ import annotations

import asyncio

from loops.tasks import Owner

from .slots import Slot


class Idling:
    """Counts what a run waits for, and what it does meanwhile."""

    def __init__(self, slot: Slot, owner: Owner) -> None:
        self._slot = slot
        self._owner = owner
        self._waits = 0
        self._busy = 0
        self._freed: asyncio.Task[None] | None = None
        self._go_on = asyncio.Event()
        self._became_idle = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether all that the run does is wait."""
        return self._waits > 0 and self._busy == 0

    def busy(self, change: int) -> None:
        """Count the turns that stream: a run that streams is not waiting."""
        self._busy += change
        self._look()

    def begin_wait(self) -> None:
        """Count a wait."""
        self._waits += 1
        self._look()

    async def end_wait(self) -> None:
        """Count a wait less, and return when the run has a slot again."""
        self._waits -= 1
        if not self.is_idle:
            self._became_idle.clear()
        freed = self._freed
        if freed is not None:
            self._go_on.set()
            await asyncio.wait({freed})

    async def until_idle(self) -> None:
        """Wait until all that the run does is wait."""
        await self._became_idle.wait()

    def _look(self) -> None:
        if not self.is_idle:
            self._became_idle.clear()
            self._go_on.set()
            return
        self._became_idle.set()
        if self._freed is None or self._freed.done():
            self._go_on.clear()
            self._freed = self._owner.start(self._give_back(), name="idle slot")

    async def _give_back(self) -> None:
        async with self._slot.freed():
            await self._go_on.wait()
