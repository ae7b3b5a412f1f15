"""Frees a run's slot while all that the run does is wait, and takes one again before it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from loops.tasks import Owner

from .slots import Slot

SETTLE = 0.02
"""Seconds that a run which went on with an answer has, before it counts as waiting for the next."""


class Idling:
    """Counts what a run waits for, and what it does meanwhile."""

    def __init__(self, slot: Slot, owner: Owner) -> None:
        self._slot = slot
        self._owner = owner
        self._waits = 0
        self._busy = 0
        self._held_up = 0
        self._freed: asyncio.Task[None] | None = None
        self._go_on = asyncio.Event()
        self._became_idle = asyncio.Event()
        self._became_still = asyncio.Event()
        self._idle_since: float | None = None
        self._idled = 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether all that the run does is wait for answers."""
        return self._waits > 0 and self._busy == 0 and self._held_up == 0

    @property
    def seconds(self) -> float:
        """How long all that the run did was wait."""
        now = monotonic()
        return self._idled + (now - self._idle_since if self._idle_since is not None else 0.0)

    def busy(self, change: int) -> None:
        """Count the turns that stream: a run that streams is not waiting."""
        self._busy += change
        self._note()
        self._look()

    @contextmanager
    def held_up(self) -> Generator[None]:
        """Let a turn wait for its provider: that does not count, but the slot stays the run's.

        Else ever more runs would begin, only to wait for the same provider.
        """
        self._held_up += 1
        self.busy(-1)
        try:
            yield
        finally:
            self._held_up -= 1
            self.busy(+1)

    def begin_wait(self) -> None:
        """Count a wait."""
        self._waits += 1
        self._note()
        self._look()

    async def end_wait(self) -> None:
        """Count a wait less, and return when the run has a slot again."""
        self._waits -= 1
        self._note()
        self._begin_anew()
        self._became_idle.clear()
        if self._freed is not None:
            self._go_on.set()
            await asyncio.wait({self._freed})

    def _begin_anew(self) -> None:
        """Let the idle time begin anew: an answer that was handed over is something that happened.

        Else a run that waits for more could be left before its loop had a chance to take this one.
        """
        if self._idle_since is not None:
            now = monotonic()
            self._idled += now - self._idle_since
            self._idle_since = now

    async def until_still(self) -> None:
        """Wait until all that the run does is wait, be it for its provider."""
        await self._became_still.wait()

    async def until_idle(self) -> None:
        """Wait until all that the run does is wait."""
        await self._became_idle.wait()

    async def until_idle_for(self, seconds: float) -> None:
        """Wait until all that the run has done for so long is wait."""
        while True:
            await self.until_idle()
            began = self._idle_since
            await asyncio.sleep(seconds)
            if self.is_idle and self._idle_since == began:
                return

    def close(self) -> None:
        """Take the slot at once, and keep it: what is being closed waits for nobody."""
        self._is_closed = True
        if self._settling is not None:
            self._settling.cancel()
        if self._freed is not None:
            self._freed.cancel()

    def _note(self) -> None:
        is_still = self._busy == 0 and self._waits + self._held_up > 0
        if is_still:
            self._became_still.set()
        else:
            self._became_still.clear()
        if is_still and self._idle_since is None:
            self._idle_since = monotonic()
        elif not is_still and self._idle_since is not None:
            self._idled += monotonic() - self._idle_since
            self._idle_since = None

    def _look(self) -> None:
        if not self.is_idle:
            self._became_idle.clear()
            self._go_on.set()
            return
        self._became_idle.set()
        if not self._is_closed and (self._freed is None or self._freed.done()):
            self._go_on.clear()
            self._freed = self._owner.start(self._give_back(), name="idle slot")

    async def _give_back(self) -> None:
        async with self._slot.freed():
            await self._go_on.wait()
        # What the run goes on with may be one answer of several: then it waits again soon.
        if not self._is_closed:
            self._settling = asyncio.get_running_loop().call_later(SETTLE, self._look)
