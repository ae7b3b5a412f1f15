"""A worker's slots: who computes holds one, who only waits has given it back.

A job that goes on takes a slot again before new jobs get one. At most four times as many jobs as
there are slots may wait in memory: when more would, the longest wait is asked to park.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

WAITING_LIMIT = 4
"""How many jobs may wait in memory, for each slot."""


def _nobody() -> None:
    """Nobody waits for room."""


class Slots:
    """The slots of one worker."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self.on_free: Callable[[], None] = _nobody
        """Called when there is room for a new job."""
        self.present = 0
        """How many jobs there are, with or without a slot."""
        self._returning: deque[asyncio.Future[None]] = deque()
        self._waiting: dict[Slot, None] = {}

    @property
    def open(self) -> int:
        """How many new jobs there is room for."""
        return max(0, min(self.free, (1 + WAITING_LIMIT) * self.total - self.present))

    @property
    def waiting(self) -> int:
        """How many jobs wait without a slot."""
        return len(self._waiting)

    def take(self) -> "Slot":
        """Give a slot to a new job."""
        self.free -= 1
        self.present += 1
        return Slot(self)

    def leave(self, slot: "Slot") -> None:
        """Take back what an ended job still has."""
        self.present -= 1
        if slot.is_held:
            self.put_back(slot)

    def put_back(self, slot: "Slot") -> None:
        """Free a slot: for a job that goes on, or else for a new one."""
        slot.is_held = False
        self.free += 1
        while self._returning and self.free > 0:
            future = self._returning.popleft()
            if not future.done():
                self.free -= 1
                future.set_result(None)
        if self.open:
            self.on_free()

    def wait(self, slot: "Slot") -> None:
        """Note that a job waits, and ask the longest wait to park if there are too many."""
        self._waiting[slot] = None
        if len(self._waiting) > WAITING_LIMIT * self.total:
            unasked = (waits for waits in self._waiting if not waits.asked_to_park.is_set())
            if (longest := next(unasked, None)) is not None:
                longest.asked_to_park.set()

    def go_on(self, slot: "Slot") -> None:
        """Note that a job waits no longer."""
        self._waiting.pop(slot, None)
        slot.asked_to_park.clear()

    def take_again(self, slot: "Slot") -> None:
        """Give a job a slot at once, if need be one more than there are."""
        self.free -= 1
        slot.is_held = True

    async def turn(self, slot: "Slot") -> None:
        """Give a job a slot as soon as one is free, in the order of asking."""
        if self.free > 0 and not self._returning:
            self.take_again(slot)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append(future)
        try:
            await future
            slot.is_held = True
        finally:
            if future.done() and not future.cancelled() and not slot.is_held:
                # The slot was given in the tick in which the job was cancelled.
                slot.is_held = True


class Slot:
    """One job's place in its worker."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.is_held = True
        self.asked_to_park = asyncio.Event()
        """Set when too many jobs wait in this process and this one has waited longest."""

    @asynccontextmanager
    async def freed(self) -> AsyncGenerator[None]:
        """Give the slot back while the body waits, and take one again before the job goes on.

        A body that raises gets a slot at once, so that cleaning up never waits.

        Raises:
            RuntimeError: When the slot is given back already.
        """
        if not self.is_held:
            raise RuntimeError("the slot is given back already: wait for everything in one place")
        self._slots.put_back(self)
        self._slots.wait(self)
        try:
            yield
        except BaseException:
            self._slots.go_on(self)
            self._slots.take_again(self)
            raise
        self._slots.go_on(self)
        await self._slots.turn(self)


def lone_slot() -> Slot:
    """Return the slot of a job that has a worker to itself."""
    return Slots(1).take()
