"""Slots: who computes holds one, who waits has given it back."""

import asyncio
from dataclasses import dataclass

import pytest

from loops.tasks import Owner
from worker.slots import Slot, Slots, lone_slot


def test_a_job_takes_a_slot_and_gives_it_back():
    slots = Slots(2)

    slot = slots.take()
    assert (slots.open, slots.present) == (1, 1)

    slots.leave(slot)
    assert (slots.open, slots.present) == (2, 0)


async def test_while_a_job_waits_its_slot_is_open_to_others():
    slots = Slots(1)
    slot = slots.take()

    async with slot.freed():
        assert (slots.open, slots.waiting, slot.is_held) == (1, 1, False)

    assert (slots.open, slots.waiting, slot.is_held) == (0, 0, True)


async def test_a_job_that_goes_on_comes_before_new_ones():
    slots = Slots(1)
    told: list[int] = []
    slots.on_free = lambda: told.append(slots.open)
    waiting, go_on = slots.take(), asyncio.Event()
    owner = Owner()
    task = owner.start(_wait(waiting, go_on), name="waits")
    await asyncio.sleep(0)
    computing = slots.take()
    go_on.set()
    await asyncio.sleep(0)

    slots.leave(computing)
    await task

    assert waiting.is_held
    assert (slots.open, told) == (0, [1])


async def _wait(slot: Slot, go_on: asyncio.Event) -> None:
    async with slot.freed():
        await go_on.wait()


async def test_jobs_go_on_in_the_order_of_asking():
    slots = Slots(1)
    order: list[str] = []
    owner = Owner()
    held = [slots.take(), slots.take()]
    slots.free = 0
    for name, slot in zip("ab", held, strict=True):
        slot.is_held = False
        owner.start(_turn(slots, slot, name, order), name=name)
    await asyncio.sleep(0)

    slots.put_back(slots.take())
    slots.free += 1
    slots.put_back(held[0])
    await owner.join()

    assert order == ["a", "b"]


async def _turn(slots: Slots, slot: Slot, name: str, order: list[str]) -> None:
    await slots.turn(slot)
    order.append(name)


@dataclass
class Waiting:
    """The one slot of two jobs: the first waits until it may go on, so the other computes."""

    slots: Slots
    waiting: Slot
    other: Slot
    go_on: asyncio.Event
    owner: Owner
    task: asyncio.Task[None]


@pytest.fixture
async def waits() -> Waiting:
    slots, go_on, owner = Slots(1), asyncio.Event(), Owner()
    waiting = slots.take()
    task = owner.start(_wait(waiting, go_on), name="waits")
    await asyncio.sleep(0)
    return Waiting(slots, waiting, slots.take(), go_on, owner, task)


async def test_a_cancelled_wait_gets_a_slot_at_once_to_clean_up(waits: Waiting):
    waits.task.cancel()
    await waits.owner.join()

    assert (waits.waiting.is_held, waits.slots.free) == (True, -1)
    waits.slots.leave(waits.waiting)
    waits.slots.leave(waits.other)
    assert (waits.slots.free, waits.slots.present) == (1, 0)


async def test_a_job_cancelled_while_it_asks_to_go_on_holds_nothing(waits: Waiting):
    waits.go_on.set()
    await asyncio.sleep(0)

    waits.task.cancel()
    await waits.owner.join()
    waits.slots.leave(waits.waiting)
    waits.slots.leave(waits.other)

    assert (waits.slots.free, waits.slots.present) == (1, 0)


async def test_a_slot_that_is_given_in_the_tick_of_a_cancellation_is_not_lost(waits: Waiting):
    waits.go_on.set()
    await asyncio.sleep(0)

    waits.slots.leave(waits.other)
    waits.task.cancel()
    await waits.owner.join()
    waits.slots.leave(waits.waiting)

    assert (waits.slots.free, waits.slots.present) == (1, 0)


async def test_the_longest_wait_is_asked_to_park_when_too_many_wait():
    slots = Slots(1)
    owner = Owner()
    waits = [slots.take() for _ in range(6)]
    for slot in waits:
        owner.start(_wait(slot, asyncio.Event()), name="waits")

    await asyncio.sleep(0)

    assert [slot.asked_to_park.is_set() for slot in waits] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    await owner.close()


async def test_a_job_that_goes_on_is_asked_to_park_no_more():
    slots = Slots(1)
    slot = slots.take()

    async with slot.freed():
        slot.asked_to_park.set()

    assert not slot.asked_to_park.is_set()


async def test_a_slot_is_given_back_once_at_a_time():
    slot = lone_slot()

    async with slot.freed():
        with pytest.raises(RuntimeError, match="given back already"):
            async with slot.freed():
                pytest.fail("a slot was given back twice")


def test_no_new_job_comes_while_as_many_wait_as_may():
    slots = Slots(1)
    for _ in range(5):
        slots.put_back(slots.take())

    assert (slots.free, slots.open) == (1, 0)
