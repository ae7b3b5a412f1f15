"""The hub over a log that loses messages, events and itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta

import orjson
import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from api.errors import RedisAway, Refusal
from api.follower import End, Follower
from api.frames import Frame, Source
from api.hub import Hub
from loops.errors import UnknownRun
from loops.tasks import Owner
from tests.api.author import event, text
from tests.api.fake_log import FakeLog
from tests.waiting import wait_until
from worker.keys import Keys
from worker.snapshot import empty_state, fold_events

SOON = timedelta(seconds=3)
AT_ONCE = timedelta(milliseconds=300)
KEYS = Keys("t")


def source(name: str = "run_1") -> Source:
    return Source(KEYS.run("default", name), name, "ses_1")


RUN = source().keys


@pytest.fixture
async def log() -> AsyncIterator[FakeLog]:
    async with FakeAsyncRedis(server=FakeServer()) as client:
        log = FakeLog(client)
        await log.append(RUN, event("run.queued"))
        yield log


@pytest.fixture
async def hub(log: FakeLog) -> AsyncIterator[Hub]:
    async with Hub(log, log.client, sweep=timedelta(milliseconds=50)) as hub:
        yield hub


@pytest.fixture
async def calm(log: FakeLog) -> AsyncIterator[Hub]:
    """A hub that never sweeps: what it does, it does because it heard something."""
    async with Hub(log, log.client, sweep=timedelta(hours=1)) as hub:
        yield hub


async def take(follower: Follower, count: int) -> list[Frame]:
    """The next events, as they come."""
    frames: list[Frame] = []
    while len(frames) < count:
        batches = await follower.next(SOON)
        assert batches, f"got {len(frames)} of {count} events"
        frames += [frame for batch in batches for frame in batch.frames]
    return frames


def seqs(frames: list[Frame]) -> list[int]:
    return [frame.seq for frame in frames]


def content(frame: Frame) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(frame.line)["data"]
    return found


async def test_a_follower_gets_what_was_and_what_comes(calm: Hub, log: FakeLog) -> None:
    await log.append(RUN, text("a"), text("b"))
    async with calm.follow(source(), after=0) as follower:
        before = await take(follower, 3)

        await log.append(RUN, text("c"))
        after = await take(follower, 1)

    assert seqs(before + after) == [1, 2, 3, 4]
    assert log.reads == 1, "what is live is heard, not read"


@pytest.mark.parametrize("cursor", range(7))
async def test_a_follower_resumes_after_any_event(calm: Hub, log: FakeLog, cursor: int) -> None:
    await log.append(RUN, text("a"), text("b"), text("c"))

    async with calm.follow(source(), after=min(cursor, 4)) as follower:
        await log.append(RUN, text("d"), text("e"), text("f"))
        frames = await take(follower, 7 - min(cursor, 4))

    assert seqs(frames) == list(range(min(cursor, 4) + 1, 8))


async def test_the_run_ends_with_its_last_event(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"), event("run.completed"))
        frames = await take(follower, 2)

        assert frames[-1].type == "run.completed"
        assert follower.end is End.FINISHED
        assert await follower.next(SOON) is None


async def test_a_lost_message_is_found_by_the_sweep(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"), published=False)

        frames = await take(follower, 1)

    assert seqs(frames) == [2]


async def test_a_message_after_a_lost_one_sends_the_channel_to_the_log(
    calm: Hub, log: FakeLog
) -> None:
    async with calm.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"), published=False)
        await log.append(RUN, text("b"))

        batches = await follower.next(AT_ONCE)

    assert batches is not None
    assert [frame.seq for batch in batches for frame in batch.frames] == [2, 3]


async def test_a_message_without_its_events_is_read_from_the_log(calm: Hub, log: FakeLog) -> None:
    async with calm.follow(source(), after=1) as follower:
        await log.append(RUN, text("x" * 70_000))

        batches = await follower.next(AT_ONCE)

    assert batches is not None
    assert batches[0].last == 2


async def test_a_message_that_comes_twice_is_given_once(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"))
        again = b'2 2 0 1800000000000 [{"type":"text.delta","data":{"text":"a"}}]'
        await log.client.publish(RUN.log, again)
        await log.append(RUN, text("b"))

        frames = await take(follower, 2)

        assert seqs(frames) == [2, 3]
        assert await follower.next(AT_ONCE) == []


async def test_all_followers_of_a_run_share_what_is_rendered(calm: Hub, log: FakeLog) -> None:
    async with calm.follow(source(), after=1) as one, calm.follow(source(), after=1) as other:
        await log.append(RUN, text("a"))
        (first,), (second,) = await one.next(SOON) or [], await other.next(SOON) or []

    assert first.sse is second.sse
    assert len(calm.followed) == 1


async def test_a_slow_follower_is_sent_back_to_the_log(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as slow, hub.follow(source(), after=1) as quick:
        for _ in range(20):
            await log.append(RUN, text("x" * 30_000))
            await take(quick, 1)
        reads = log.reads

        frames = await take(slow, 20)

    assert seqs(frames) == list(range(2, 22))
    assert log.reads > reads


async def test_a_cut_head_is_a_gap_and_a_snapshot(calm: Hub, log: FakeLog) -> None:
    for letter in "abcd":
        await log.append(RUN, text(letter))
    await log.cut(RUN, 3, {"text": "ab"})

    async with calm.follow(source(), after=1) as follower:
        gap, snapshot, *events = await take(follower, 4)

    assert (gap.type, gap.position, content(gap)) == ("stream.gap", b"3", {"from": 2, "to": 3})
    assert (snapshot.type, snapshot.position) == ("state.snapshot", b"3")
    assert content(snapshot) == {"last_seq": 3, "state": {"text": "ab"}}
    assert "seq" not in orjson.loads(gap.line)
    assert seqs(events) == [4, 5]


async def test_a_head_that_is_cut_while_it_is_read_is_told_too(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        for letter in "abcd":
            await log.append(RUN, text(letter), published=False)
        await log.cut(RUN, 4, {})

        frames = await take(follower, 3)

    assert [frame.type for frame in frames] == ["stream.gap", "state.snapshot", "text.delta"]
    assert content(frames[0]) == {"from": 2, "to": 4}
    assert frames[2].seq == 5


async def test_a_cursor_ahead_of_a_live_log_is_a_gap_and_a_snapshot(
    calm: Hub, log: FakeLog
) -> None:
    await log.append(RUN, text("so far"))

    async with calm.follow(source(), after=9) as follower:
        gap, snapshot = await take(follower, 2)
        await log.append(RUN, text("next"))
        (event_,) = await take(follower, 1)

    assert (gap.type, gap.position, content(gap)) == ("stream.gap", b"2", {"from": 3, "to": 9})
    assert (snapshot.type, content(snapshot)["last_seq"]) == ("state.snapshot", 2)
    assert b"so far" in snapshot.line
    assert event_.seq == 3


async def test_a_snapshot_for_a_cursor_ahead_goes_on_from_the_one_that_is_stored(
    calm: Hub, log: FakeLog
) -> None:
    await log.append(RUN, text("cut "))
    await log.append(RUN, text("kept"))
    stored = fold_events(empty_state(), await log.read(RUN, limit=2))
    await log.cut(RUN, stored.pop("seq"), stored)

    async with calm.follow(source(), after=9) as follower:
        _, snapshot = await take(follower, 2)

    assert content(snapshot)["last_seq"] == 3
    assert b"cut kept" in snapshot.line


async def test_a_log_that_lost_its_end_starts_its_followers_over(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"))
        await log.append(RUN, text("lost"))
        await take(follower, 2)

        log.lose(RUN, 1)
        gap, snapshot = await take(follower, 2)

        await log.append(RUN, text("instead"))
        (new,) = await take(follower, 1)

    assert content(gap) == {"from": 3, "to": 3}
    assert content(snapshot)["last_seq"] == 2
    assert b"lost" not in snapshot.line
    assert (new.seq, content(new)["text"]) == (3, "instead")


async def test_a_run_that_vanishes_ends_the_stream_with_an_error(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        log.vanish(RUN)

        (error,) = await take(follower, 1)

        assert (error.type, content(error)["code"]) == ("error", "run_gone")
        assert follower.end is End.GONE
        assert await follower.next(SOON) is None


async def test_a_settled_run_that_is_gone_is_an_error(hub: Hub, log: FakeLog) -> None:
    log.vanish(RUN)

    async with hub.read(source(), last_seq=5, is_settled=True, after=2) as follower:
        (error,) = await take(follower, 1)

    assert error.type == "error"


async def test_a_settled_run_whose_events_are_gone_is_a_gap_and_an_error(
    hub: Hub, log: FakeLog
) -> None:
    await log.append(RUN, text("a"), event("run.completed"))
    log.forget_events(RUN)

    async with hub.read(source(), last_seq=3, is_settled=True, after=1) as follower:
        gap, error = await take(follower, 2)

    assert (gap.type, content(gap)) == ("stream.gap", {"from": 2, "to": 3})
    assert error.type == "error"


async def test_a_settled_run_is_read_without_a_subscription(hub: Hub, log: FakeLog) -> None:
    await log.append(RUN, text("a"), event("run.completed"))

    async with hub.read(source(), last_seq=3, is_settled=True, after=0) as follower:
        frames = await take(follower, 3)

    assert seqs(frames) == [1, 2, 3]
    assert len(hub.followed) == 0


async def test_reading_a_live_run_waits_for_nothing(hub: Hub, log: FakeLog) -> None:
    async with hub.read(source(), last_seq=1, is_settled=False, after=0) as follower:
        await take(follower, 1)

        assert await follower.next(timedelta(0)) == []


async def test_a_filtered_follower_sees_its_types_and_the_end(hub: Hub, log: FakeLog) -> None:
    types = frozenset({"tool.finished"})
    async with hub.follow(source(), after=0, types=types) as follower:
        await log.append(RUN, text("a"), event("tool.finished", 1, call="c"), text("b"))
        await log.append(RUN, event("run.failed"))

        frames = await take(follower, 2)

    assert [(frame.seq, frame.type) for frame in frames] == [
        (3, "tool.finished"),
        (5, "run.failed"),
    ]


async def test_a_filtered_follower_moves_on_over_what_it_does_not_see(
    hub: Hub, log: FakeLog
) -> None:
    async with hub.follow(source(), after=0, types=frozenset({"tool.finished"})) as follower:
        await log.append(RUN, text("a"), text("b"))

        assert await follower.next(AT_ONCE) == []
        assert follower.cursor == 3


async def test_a_call_that_comes_while_a_follower_looks_is_not_lost(
    calm: Hub, log: FakeLog
) -> None:
    async with calm.follow(source(), after=1) as follower:
        follower.wake()

        assert await follower.woken(deadline=asyncio.get_running_loop().time() + 10)
        assert not await follower.woken(deadline=asyncio.get_running_loop().time() + 0.01)


async def test_a_reader_elsewhere_may_be_ahead_of_what_was_heard_here(
    calm: Hub, log: FakeLog
) -> None:
    async with calm.follow(source(), after=1) as here:
        await log.append(RUN, text("not heard"), published=False)
        async with calm.follow(source(), after=2) as ahead:
            assert await ahead.next(timedelta(milliseconds=50)) == []

            await log.append(RUN, text("heard"))

            assert seqs(await take(ahead, 1)) == [3]
        assert seqs(await take(here, 2)) == [2, 3]


async def test_an_unknown_run_cannot_be_followed(hub: Hub) -> None:
    with pytest.raises(UnknownRun):
        async with hub.follow(source("run_2"), after=0):
            pass

    assert len(hub.followers) == 0


async def test_a_follower_that_comes_while_redis_is_away_is_told_in_time(log: FakeLog) -> None:
    log.is_away = True
    patience = timedelta(milliseconds=100)

    async with Hub(log, log.client, join=patience) as hub:
        with pytest.raises(RedisAway):
            async with hub.follow(source(), after=0):
                pass

        assert len(hub.followers) == 0


async def test_a_follower_outlives_an_outage(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1) as follower:
        log.is_away = True
        await log.append(RUN, text("a"), published=False)
        assert await follower.next(AT_ONCE) == []
        log.is_away = False

        assert seqs(await take(follower, 1)) == [2]


async def test_a_reader_in_the_past_outlives_an_outage(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=0) as follower:
        log.is_away = True
        assert await follower.next(AT_ONCE) == []
        log.is_away = False

        assert seqs(await take(follower, 1)) == [1]


async def test_a_hub_that_stops_ends_all_followers_at_once(hub: Hub, log: FakeLog) -> None:
    owner = Owner()
    async with hub.follow(source(), after=1) as live:
        waiting = owner.start(live.next(timedelta(seconds=60)), name="reader")
        await wait_until(lambda: log.sweeps > 0)

        hub.close()

        assert await waiting is None
        assert live.end is End.CLOSED
        with pytest.raises(Refusal, match="stopping"):
            async with hub.follow(source(), after=1):
                pass


async def test_a_run_that_nobody_follows_any_more_is_dropped(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1):
        assert len(hub.followed) == 1

    await wait_until(lambda: len(hub.followed) == 0, for_="the channel to be dropped")
    assert await log.client.pubsub_channels() == []


async def test_a_run_that_was_dropped_can_be_followed_again(hub: Hub, log: FakeLog) -> None:
    async with hub.follow(source(), after=1):
        pass
    await wait_until(lambda: len(hub.followed) == 0, for_="the channel to be dropped")

    async with hub.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"))

        assert seqs(await take(follower, 1)) == [2]


async def test_one_sweep_asks_for_all_runs_at_once(hub: Hub, log: FakeLog) -> None:
    runs = [source(f"run_{n}") for n in range(20)]
    for run in runs:
        await log.append(run.keys, event("run.queued"))
    async with AsyncExitStack() as stack:
        for run in runs:
            await stack.enter_async_context(hub.follow(run, after=1))
        for run in runs:
            await log.append(run.keys, text("a"), published=False)
        sweeps = log.sweeps

        await wait_until(lambda: log.reads == len(runs), for_="all runs to be read")

    assert log.sweeps <= sweeps + 2


async def test_the_sweep_comes_though_somebody_joins_all_the_time(log: FakeLog) -> None:
    clock = asyncio.get_running_loop().time
    async with (
        Hub(log, log.client, sweep=timedelta(milliseconds=200)) as hub,
        hub.follow(source(), after=1) as follower,
    ):
        await log.append(RUN, text("a"), published=False)
        began = clock()
        joined = 0
        while follower.channel.tail.end < 2 and clock() < began + 2:
            run = source(f"run_{joined + 2}")
            await log.append(run.keys, event("run.queued"))
            async with hub.follow(run, after=1):
                joined += 1

        assert seqs(await take(follower, 1)) == [2]
        assert joined > 2
        assert clock() - began < 1


async def test_a_message_that_cannot_be_read_sends_the_channel_to_the_log(
    calm: Hub, log: FakeLog
) -> None:
    async with calm.follow(source(), after=1) as follower:
        await log.append(RUN, text("a"), published=False)
        await log.client.publish(RUN.log, b"nonsense")

        assert seqs(await take(follower, 1)) == [2]
        assert calm.is_working


async def test_a_log_that_cannot_be_read_ends_its_readers_and_no_others(
    hub: Hub, log: FakeLog
) -> None:
    other = source("run_2")
    await log.append(other.keys, event("run.queued"))
    async with hub.follow(source(), after=1) as broken, hub.follow(other, after=1) as whole:
        log.unreadable = RUN.log
        await log.append(RUN, text("a"), published=False)

        (error,) = await take(broken, 1)
        await log.append(other.keys, text("b"), published=False)

        assert (error.type, content(error)["code"]) == ("error", "log_unreadable")
        assert broken.end is End.GONE
        assert seqs(await take(whole, 1)) == [2]
        assert hub.is_working


async def test_a_reader_in_the_past_that_cannot_go_on_ends_alone(calm: Hub, log: FakeLog) -> None:
    await log.append(RUN, text("a"))
    async with calm.follow(source(), after=0) as past, calm.follow(source(), after=2) as live:
        log.unreadable = RUN.log
        (error,) = await take(past, 1)
        await log.append(RUN, text("b"))

        assert (error.type, error.position) == ("error", b"0")
        assert seqs(await take(live, 1)) == [3]
