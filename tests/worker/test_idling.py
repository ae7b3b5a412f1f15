"""A run gives its slot up while all it does is wait, and has one again before it goes on."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from loops.tasks import Owner
from tests.waiting import wait_until
from worker.idling import Idling
from worker.slots import Slots


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    await owner.close()


class Bench:
    """A run with one of some slots."""

    def __init__(self, owner: Owner, total: int = 1) -> None:
        self.slots = Slots(total)
        self.slot = self.slots.take()
        self.idling = Idling(self.slot, owner)

    async def is_free(self) -> None:
        await wait_until(lambda: not self.slot.is_held, for_="the slot to be given back")

    async def is_held(self) -> None:
        await wait_until(lambda: self.slot.is_held, for_="the slot to be taken again")


async def test_a_run_that_only_waits_gives_its_slot_back(owner: Owner):
    bench = Bench(owner)

    bench.idling.begin_wait()

    await bench.is_free()
    assert bench.idling.is_idle
    assert (bench.slots.free, bench.slots.waiting) == (1, 1)


async def test_a_run_that_goes_on_has_a_slot_first(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    await bench.is_free()

    await bench.idling.end_wait()

    assert bench.slot.is_held
    assert (bench.slots.free, bench.slots.waiting) == (0, 0)


async def test_a_run_waits_until_a_slot_is_free_before_it_goes_on(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    await bench.is_free()
    other = bench.slots.take()
    goes_on = owner.start(bench.idling.end_wait(), name="goes on")
    await wait_until(lambda: bench.slots.waiting == 0)
    assert not goes_on.done()

    bench.slots.leave(other)

    await asyncio.wait([goes_on])
    assert bench.slot.is_held


async def test_a_run_that_streams_while_it_waits_keeps_its_slot(owner: Owner):
    bench = Bench(owner)
    bench.idling.busy(+1)

    bench.idling.begin_wait()
    await asyncio.sleep(0)
    assert bench.slot.is_held

    bench.idling.busy(-1)
    await bench.is_free()


async def test_a_run_that_begins_to_stream_takes_a_slot_again(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    await bench.is_free()

    bench.idling.busy(+1)

    await bench.is_held()
    assert not bench.idling.is_idle


async def test_a_run_that_goes_on_waiting_after_one_answer_of_two_gives_its_slot_back_again(
    owner: Owner,
):
    bench = Bench(owner)
    bench.idling.begin_wait()
    bench.idling.begin_wait()
    await bench.is_free()

    await bench.idling.end_wait()
    assert bench.slot.is_held

    await bench.is_free()
    await bench.idling.end_wait()
    assert bench.slot.is_held


async def test_who_waits_for_the_run_to_be_idle_is_told(owner: Owner):
    bench = Bench(owner)
    told = owner.start(bench.idling.until_idle(), name="told")
    bench.idling.busy(+1)
    bench.idling.begin_wait()
    await asyncio.sleep(0)
    assert not told.done()

    bench.idling.busy(-1)

    async with asyncio.timeout(1):
        await told


async def test_a_run_that_has_gone_on_is_not_idle_any_more(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    await bench.is_free()
    await bench.idling.end_wait()

    told = owner.start(bench.idling.until_idle(), name="told")

    await asyncio.sleep(0)
    assert not told.done()


async def test_a_closed_run_has_its_slot_at_once_and_gives_it_back_no_more(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    bench.idling.begin_wait()
    await bench.is_free()
    bench.slots.take()

    bench.idling.close()
    async with asyncio.timeout(1):
        await bench.idling.end_wait()
    assert bench.slot.is_held

    bench.idling.busy(0)
    await asyncio.sleep(0)
    assert bench.slot.is_held


async def test_a_closed_run_does_not_wait_in_line_for_a_slot(owner: Owner):
    bench = Bench(owner)
    bench.idling.begin_wait()
    await bench.is_free()
    bench.slots.take()
    goes_on = owner.start(bench.idling.end_wait(), name="goes on")
    await wait_until(lambda: bench.slots.waiting == 0)

    bench.idling.close()

    async with asyncio.timeout(1):
        await goes_on


async def test_the_time_that_a_run_waits_is_known(owner: Owner):
    bench = Bench(owner)
    assert bench.idling.seconds == 0

    bench.idling.begin_wait()
    await wait_until(lambda: bench.idling.seconds > 0.01, for_="the wait to be counted")
    bench.idling.busy(+1)

    waited = bench.idling.seconds
    await asyncio.sleep(0)
    assert bench.idling.seconds == waited


async def test_a_turn_that_waits_for_its_provider_does_not_count_but_keeps_the_slot(owner: Owner):
    bench = Bench(owner)
    bench.idling.busy(+1)

    with bench.idling.held_up():
        await wait_until(lambda: bench.idling.seconds > 0.02, for_="time that does not count")
        assert (bench.idling.is_idle, bench.slot.is_held) == (False, True)
    spent = bench.idling.seconds

    await asyncio.sleep(0.01)
    assert bench.idling.seconds == spent


async def test_a_run_that_streams_while_another_turn_waits_for_its_provider_counts(owner: Owner):
    bench = Bench(owner)
    bench.idling.busy(+2)

    with bench.idling.held_up():
        await asyncio.sleep(0.01)

    assert bench.idling.seconds == 0


async def test_a_run_that_waits_for_tools_too_keeps_the_slot_for_its_turn(owner: Owner):
    bench = Bench(owner)
    bench.idling.busy(+1)
    bench.idling.begin_wait()

    with bench.idling.held_up():
        await asyncio.sleep(0.01)
        assert bench.slot.is_held
    bench.idling.busy(-1)

    await bench.is_free()


async def test_an_answer_that_was_handed_over_lets_the_idle_time_begin_anew(owner: Owner):
    idling = Bench(owner).idling
    idling.begin_wait()
    idling.begin_wait()
    began = idling._idle_since
    before = idling.seconds

    await idling.end_wait()

    assert idling.is_idle
    assert began is not None
    assert idling._idle_since is not None
    assert idling._idle_since > began
    assert idling.seconds > before
