"""Shutting down: jobs may finish for a while, then they are cancelled and given back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from .claimer import Claimer
from .hand import Hand
from .job import Job
from .lifecycle import Lifecycle
from .queue import Stop

CLEAN_UP = timedelta(seconds=10)
"""How long cancelled jobs may clean up, before the worker gives them back without that."""

LAST_WORD = timedelta(seconds=1)
"""How long the server has to answer that, before the claims are left to lapse; and how long jobs
may clean up in a hurry."""


class Draining:
    """The end of one worker's jobs."""

    def __init__(self, hand: Hand, claimer: Claimer, lifecycle: Lifecycle) -> None:
        self._hand = hand
        self._claimer = claimer
        self._lifecycle = lifecycle
        self._is_hurried = False
        self.clean_up = CLEAN_UP

    def ask(self) -> None:
        """Begin to shut down; asked a second time, do so at once."""
        self._claimer.stop()
        self._is_hurried = self._lifecycle.draining
        self._lifecycle.drain()
        self._hand.changed.set()

    async def drain(self, limit_of: Callable[[Job], timedelta]) -> None:
        """Wait for the jobs, cancel each that takes longer than it may, and wait for those."""
        loop = asyncio.get_running_loop()
        jobs = list(self._hand.jobs.values())
        timers = [
            loop.call_later(limit_of(job).total_seconds(), job.cancel, Stop.DRAINED) for job in jobs
        ]
        await self._wait_for_end(max(map(limit_of, jobs), default=timedelta(0)))
        for timer in timers:
            timer.cancel()
        if self._is_hurried:
            await self.shut(Stop.SHUT, clean_up=LAST_WORD)
        else:
            await self.shut(Stop.DRAINED, clean_up=self.clean_up)

    async def shut(self, stop: Stop, *, clean_up: timedelta = LAST_WORD) -> None:
        """Cancel all jobs now, and wait until the server knows that they are given back."""
        self._is_hurried = False
        for job in list(self._hand.jobs.values()):
            job.cancel(stop)
        await self._wait_for_end(clean_up)
        self._hand.give_up()
        await self._wait_for_end(LAST_WORD)

    async def _wait_for_end(self, limit: timedelta) -> None:
        """Wait until no job is left, a second signal came, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit.total_seconds()):
                # What a claim under way brings is given back unbegun.
                while (self._hand.jobs or self._claimer.is_asking) and not self._is_hurried:
                    self._hand.changed.clear()
                    await self._hand.changed.wait()
