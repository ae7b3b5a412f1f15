"""The event log, on fakeredis and on the real server: numbered without gaps, read from anywhere."""

from typing import Any

import orjson
import pytest

from loops.events import Custom, TextDelta, TextStart
from tests.waiting import wait_until
from tests.worker.passes import TENANT, Hands, Pass, flush
from worker.event_log import (
    TERMINAL_EVENTS,
    EventLog,
    LogEvent,
    Snapshot,
    UnreadableLog,
    decode_message,
    render,
)
from worker.keys import RunKeys
from worker.link import Link
from worker.run_record import MOVES, RunStatus


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


@pytest.fixture
async def one(hands: Hands) -> Pass:
    """A run with two events so far."""
    return await hands.drive(await hands.submit())


@pytest.fixture
def log(hands: Hands) -> EventLog:
    return hands.resources.log


def keys_of(one: Pass) -> RunKeys:
    return one.place.keys.run(TENANT, one.place.run_id)


async def notes(one: Pass, *counts: int) -> None:
    """Append entries of so many notes."""
    for count in counts:
        await one.send("append_yields", flush(*(Custom("note", n) for n in range(count))))


async def test_events_are_numbered_from_one_without_gaps(one: Pass, log: EventLog):
    await notes(one, 3, 1, 2)

    events = await log.read(keys_of(one))

    assert [event.seq for event in events] == list(range(1, 9))
    assert [event.type for event in events[:2]] == ["run.queued", "run.started"]
    assert await log.last_seqs([keys_of(one)]) == [8]


async def test_an_entrys_id_is_the_seq_of_its_last_event(one: Pass, any_link: Link):
    await notes(one, 3)

    entries = await any_link.command("XRANGE", keys_of(one).log, "-", "+")

    assert [entry_id for entry_id, _ in entries] == [b"1-0", b"2-0", b"5-0"]
    fields = dict(zip(entries[2][1][::2], entries[2][1][1::2], strict=True))
    assert set(fields) == {b"attempt", b"time", b"events"}
    assert orjson.loads(fields[b"events"])[2] == {"type": "custom.note", "data": {"value": 2}}


@pytest.mark.parametrize("after", range(10))
async def test_a_reader_goes_on_after_any_event(one: Pass, log: EventLog, after: int):
    await notes(one, 3, 1, 2)

    events = await log.read(keys_of(one), after=after)

    assert [event.seq for event in events] == list(range(after + 1, 9))


async def test_a_limit_counts_entries_and_never_splits_one(one: Pass, log: EventLog):
    await notes(one, 3, 2)

    first = await log.read(keys_of(one), limit=3)
    second = await log.read(keys_of(one), after=first[-1].seq, limit=3)

    assert [event.seq for event in first] == [1, 2, 3, 4, 5]
    assert [event.seq for event in second] == [6, 7]


async def test_an_event_has_its_turn_its_attempt_and_the_servers_time(one: Pass, log: EventLog):
    await one.send("append_yields", flush(TextStart(0, turn=4), Custom("note")))

    queued, _, text, note = await log.read(keys_of(one))

    assert (queued.attempt, text.attempt) == (0, 1)
    assert (text.turn, note.turn) == (4, None)
    assert 0 <= text.time - queued.time < 60_000
    assert text.data == {"block": 0}


async def test_there_is_nothing_to_read_of_a_run_that_is_not_there(log: EventLog, hands: Hands):
    nobody = hands.resources.keys.run(TENANT, "run_none")

    assert await log.read(nobody) == []
    assert await log.last_seqs([nobody]) == [None]
    assert await log.snapshot(nobody) is None


async def test_the_newest_seqs_of_many_runs_are_told_in_their_order(
    one: Pass, log: EventLog, hands: Hands
):
    other = await hands.submit()
    places = [hands.resources.keys.run(TENANT, name) for name in (other.run_id, "run_none")]

    assert await log.last_seqs([places[0], keys_of(one), places[1]]) == [1, 2, None]


async def heard(one: Pass, *yields: Any) -> bytes:
    """Return what the run's channel says when these are appended."""
    messages: list[bytes] = []
    async with one.hands.link.client.pubsub() as subscription:
        await subscription.subscribe(keys_of(one).log)
        await subscription.get_message(timeout=1)
        await one.send("append_yields", flush(*yields))

        async def has_come() -> bool:
            message = await subscription.get_message(ignore_subscribe_messages=True, timeout=0.05)
            messages.extend([message["data"]] if message else [])
            return bool(messages)

        await wait_until(has_come, for_="the message")
    return messages[0]


async def test_what_is_appended_is_published_whole(one: Pass, log: EventLog):
    message = await heard(one, TextStart(0, turn=1), TextDelta(0, "hé", turn=1))

    first, last, events = decode_message(message)

    assert (first, last) == (3, 4)
    assert events == await log.read(keys_of(one), after=2)


async def test_of_what_is_long_only_the_range_is_published(one: Pass, log: EventLog):
    message = await heard(one, Custom("note"), Custom("long", "x" * 65_536))

    assert message == b"3 4"
    assert decode_message(message) == (3, 4, None)
    assert len((await log.read(keys_of(one)))[-1].data["value"]) == 65_536


async def cut(one: Pass, seq: int, state: dict[str, Any], size: int = 0) -> int:
    """Cut the log's head up to an event."""
    arguments = [one.begun.epoch, seq, orjson.dumps({"seq": seq, **state}), size]
    done: int = await one.hands.link.run("trim_log", [one.place.record], arguments)
    return done


async def test_a_cut_head_is_gone_and_its_snapshot_stands_for_it(one: Pass, log: EventLog):
    await notes(one, 2, 2, 2)

    assert await cut(one, 4, {"turns": []}) == 1

    assert [event.seq for event in await log.read(keys_of(one))] == [5, 6, 7, 8]
    assert await log.snapshot(keys_of(one)) == Snapshot(4, {"turns": []})
    assert (await one.hands.resources.runs.load(TENANT, one.place.run_id)).cut == 4


async def test_only_the_owner_of_a_run_cuts_its_log(one: Pass, log: EventLog, hands: Hands):
    await notes(one, 2)
    await hands.take_over(one)

    assert await cut(one, 3, {}) == 0

    assert [event.seq for event in await log.read(keys_of(one))] == [1, 2, 3, 4, 5]
    assert await log.snapshot(keys_of(one)) is None


def test_an_events_public_form_is_one_line_with_the_runs_names():
    event = LogEvent(42, "tool.finished", 3, 1, 1_700_000_000_007, {"call": "c", "content": "ü"})

    line = render(event, run_id="run_1", session_id="ses_1")

    assert b"\n" not in line
    assert list(orjson.loads(line).items()) == [
        ("seq", 42),
        ("type", "tool.finished"),
        ("run", "run_1"),
        ("session", "ses_1"),
        ("attempt", 1),
        ("turn", 3),
        ("time", "2023-11-14T22:13:20.007Z"),
        ("data", {"call": "c", "content": "ü"}),
    ]


def test_an_event_of_no_turn_names_none_and_its_time_is_always_in_milliseconds():
    line = render(
        LogEvent(1, "run.queued", None, 0, 1_700_000_000_000, {}), run_id="", session_id=""
    )

    told = orjson.loads(line)
    assert "turn" not in told
    assert told["time"] == "2023-11-14T22:13:20.000Z"


WRONG = [b"nonsense", b"1 x", b"1 1 0 5 [1]", b"1 1 0 5 [{}]", b'1 1 0 5 [{"type":1,"data":{}}]']


@pytest.mark.parametrize("message", [*WRONG, b"", b"1 1 0 5 {", b"\xff \xff"])
def test_a_message_that_is_none_is_told_as_that(message: bytes):
    with pytest.raises(UnreadableLog):
        decode_message(message)


async def test_an_entry_that_holds_no_events_is_told_as_that(
    one: Pass, log: EventLog, any_link: Link
):
    run = keys_of(one)
    await any_link.command("XADD", run.log, "3-0", "attempt", 0, "time", 5, "events", "[{}]")
    await any_link.command("HSET", run.record, "last_seq", 3)

    with pytest.raises(UnreadableLog, match="3-0"):
        await log.read(run)

    assert (await log.read(run, limit=1))[0].type == "run.queued"
    await any_link.command("XDEL", run.log, "3-0")
    await any_link.command("HSET", run.record, "last_seq", 2)


def test_the_last_events_are_those_of_the_statuses_that_end_a_run():
    assert {f"run.{status}" for status in RunStatus if not MOVES[status]} == TERMINAL_EVENTS
