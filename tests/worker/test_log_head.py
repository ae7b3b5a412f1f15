"""A log's head is folded and cut when it is long, and never into a turn that is open."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from loops.events import Custom, TextDelta
from tests.faults import Fault, FaultyLink, Trap
from tests.worker.passes import TENANT, Hands, Pass, flush
from worker.event_log import EventLog, LogEvent, Snapshot
from worker.link import Link
from worker.log_head import KEPT, LogHead
from worker.snapshot import empty_state, fold_events

LIMIT = 40


@dataclass
class Bounded:
    """A run whose log may hold 40 events."""

    one: Pass
    log: EventLog
    head: LogHead

    async def events(self) -> list[LogEvent]:
        return await self.log.read(self.one.place.keys.run(TENANT, self.one.place.run_id))

    async def snapshot(self) -> Snapshot | None:
        return await self.log.snapshot(self.one.place.keys.run(TENANT, self.one.place.run_id))

    async def notes(self, count: int, size: int = 1) -> None:
        for _ in range(count):
            await self.one.send("append_yields", flush(Custom("note", "x" * size)))

    async def cut(self) -> None:
        await self.head.cut_when_long(self.one.begun.epoch)


async def bounded(link: Link, **limits: Any) -> Bounded:
    hands = Hands(link, {"log_events": LIMIT, **limits})
    one = await hands.drive(await hands.submit())
    resources = hands.resources
    return Bounded(one, resources.log, LogHead(link, resources.log, one.place, resources.settings))


@pytest.fixture
async def run(any_link: Link) -> Bounded:
    return await bounded(any_link)


async def test_a_log_within_its_limits_is_left_alone(run: Bounded):
    await run.notes(LIMIT - 2)

    await run.cut()

    assert [event.seq for event in await run.events()] == list(range(1, LIMIT + 1))
    assert await run.snapshot() is None


async def test_a_long_log_is_cut_to_a_share_of_its_limit(run: Bounded):
    await run.notes(LIMIT)

    await run.cut()

    events = await run.events()
    assert len(events) == LIMIT * KEPT
    assert [event.seq for event in events] == list(range(13, LIMIT + 3))
    snapshot = await run.snapshot()
    assert snapshot is not None
    assert (snapshot.seq, snapshot.state["run"]) == (12, "started")


async def test_a_snapshot_is_the_fold_of_exactly_what_was_cut(run: Bounded):
    said = [flush(TextDelta(0, f"{n} ", turn=1), Custom("n", n)) for n in range(30)]
    for each in said:
        await run.one.send("append_yields", each)
    whole = await run.events()

    await run.cut()
    await run.notes(30)
    after = await run.events()
    await run.cut()

    snapshot = await run.snapshot()
    assert snapshot is not None
    everything = {event.seq: event for event in (*whole, *after)}
    cut = [everything[seq] for seq in range(1, snapshot.seq + 1)]
    assert {"seq": snapshot.seq, **snapshot.state} == fold_events(empty_state(), cut)
    assert (await run.events())[0].seq == snapshot.seq + 1


async def test_a_log_that_is_long_in_bytes_is_cut_as_well(any_link: Link):
    run = await bounded(any_link, log_bytes=10_000)
    await run.notes(12, size=1000)

    await run.cut()

    assert int(await run.one.hands.field(run.one.place, "log_bytes") or 0) <= 10_000 * KEPT
    assert len(await run.events()) == 7


async def test_nothing_is_cut_from_the_start_of_an_open_turn_on(run: Bounded):
    await run.notes(5)
    await run.one.send("append_yields", flush(opens="turn:1"))
    await run.notes(LIMIT)

    await run.cut()

    events = await run.events()
    assert (events[0].seq, events[0].type) == (8, "turn.started")


async def test_an_entry_is_cut_whole_or_not_at_all(run: Bounded):
    await run.one.send("append_yields", flush(*(Custom("n", n) for n in range(20))))
    await run.notes(LIMIT)

    await run.cut()

    assert (await run.events())[0].seq == 33


async def test_a_log_that_cannot_be_cut_is_left_alone(run: Bounded):
    await run.one.send("append_yields", flush(opens="turn:1"))
    await run.notes(LIMIT)
    await run.cut()

    await run.cut()

    assert (await run.events())[0].seq == 3


async def test_a_run_that_is_gone_is_left_alone(run: Bounded):
    await run.one.settle()
    await run.one.hands.resources.runs.delete(TENANT, run.one.place.run_id)

    await run.cut()

    assert await run.snapshot() is None


async def test_a_pass_that_owns_its_run_no_more_cuts_nothing(run: Bounded):
    await run.notes(LIMIT)
    await run.one.hands.take_over(run.one)

    await run.cut()

    assert (await run.events())[0].seq == 1


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_cut_that_fails_anywhere_is_made_good_by_the_next_one(link: Link, fault: Fault):
    trap = Trap(0, fault)
    while trap.at == 0 or trap.has_sprung:
        trap = Trap(trap.at + 1, fault)
        run = await bounded(link)
        await run.notes(LIMIT)
        faulty = FaultyLink(link.client, trap)
        resources = run.one.hands.resources
        log = EventLog(faulty, resources.keys)
        with suppress(RedisConnectionError):
            await LogHead(faulty, log, run.one.place, resources.settings).cut_when_long(
                run.one.begun.epoch
            )
        await faulty.aclose()

        await run.cut()

        events = await run.events()
        assert [event.seq for event in events] == list(range(13, LIMIT + 3))
        snapshot = await run.snapshot()
        assert snapshot is not None
        assert snapshot.seq == 12
    assert trap.at > 4
