"""What a tool tells while it works: of progress the latest, of a stream all and in order."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from loops.tasks import Owner
from tests.waiting import wait_until
from worker.outbox import EVENT_LIMIT
from worker.progress import ENTRY_LIMIT, WAITING_LIMIT, WINDOW, ProgressFeed


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    await owner.close()


class Log:
    """Takes entries, as soon as it is open."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self.numbers: list[int] = []
        self.times: list[float] = []
        self.longest = 0
        self.open = asyncio.Event()
        self.open.set()

    async def append(self, number: int, count: int, events: bytes) -> None:
        self.times.append(time.monotonic())
        await self.open.wait()
        told = orjson.loads(events)
        assert count == len(told)
        assert {event["type"] for event in told} == {"tool.progress"}
        assert {event["data"]["call"] for event in told} == {"turn:1.0"}
        self.numbers.append(number)
        self.longest = max(self.longest, *(len(orjson.dumps(event)) for event in told))
        self.entries.append([event["data"]["value"] for event in told])

    @property
    def values(self) -> list[Any]:
        return [value for entry in self.entries for value in entry]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def feed(log: Log, owner: Owner) -> ProgressFeed:
    return ProgressFeed("turn:1.0", log.append, owner)


async def test_the_first_value_is_told_at_once(feed: ProgressFeed, log: Log):
    feed(0.1, kept=False)

    await wait_until(lambda: log.values == [0.1])
    assert log.numbers == [1]


async def test_of_progress_the_latest_value_counts_ten_times_a_second_at_most(
    feed: ProgressFeed, log: Log
):
    began = time.monotonic()
    while len(log.entries) < 4:
        feed(round(time.monotonic() - began, 3), kept=False)
        await asyncio.sleep(0.005)

    gaps = [later - earlier for earlier, later in zip(log.times, log.times[1:], strict=False)]
    assert min(gaps) >= WINDOW * 0.9
    assert {len(entry) for entry in log.entries} == {1}
    assert log.values == sorted(log.values)


async def test_values_of_a_stream_all_arrive_in_order(feed: ProgressFeed, log: Log):
    for number in range(50):
        feed(number, kept=True)
        if number % 10 == 0:
            await asyncio.sleep(0)

    await feed.finish()

    assert log.values == list(range(50))
    assert log.numbers == list(range(1, len(log.numbers) + 1))
    assert len(log.entries) < 10


async def test_finishing_waits_for_nothing_but_the_log(feed: ProgressFeed, log: Log):
    feed("first", kept=True)
    await wait_until(lambda: bool(log.values))
    feed("last", kept=True)
    began = time.monotonic()

    await feed.finish()

    assert log.values == ["first", "last"]
    assert time.monotonic() - began < WINDOW / 2


async def test_what_was_told_while_the_log_is_away_comes_after_and_before_the_end(
    feed: ProgressFeed, log: Log, owner: Owner
):
    log.open.clear()
    feed(1, kept=True)
    await wait_until(lambda: bool(log.times))
    for value in (2, 3):
        feed(value, kept=True)
    finishing = owner.start(feed.finish(), name="finish")
    await asyncio.sleep(0)
    assert not finishing.done()

    log.open.set()
    await finishing

    assert log.values == [1, 2, 3]
    assert log.numbers == [1, 2]


async def test_what_is_told_after_the_end_is_not_taken(feed: ProgressFeed, log: Log, owner: Owner):
    feed("in time", kept=True)
    await feed.finish()

    feed("late", kept=True)
    feed(1.0, kept=False)
    await owner.join()

    assert log.values == ["in time"]


async def test_a_stream_of_much_is_told_in_bounded_entries_without_a_pause(
    feed: ProgressFeed, log: Log
):
    values = [f"{number:03}" + "x" * 20_000 for number in range(200)]
    began = time.monotonic()
    for value in values:
        feed(value, kept=True)
    await wait_until(lambda: len(log.values) >= 200 - WAITING_LIMIT // 20_000)
    took = time.monotonic() - began
    await feed.finish()

    assert log.values == values
    assert max(sum(map(len, entry)) for entry in log.entries) <= ENTRY_LIMIT
    assert took < WINDOW * 8


async def test_a_tool_that_tells_nothing_appends_nothing(feed: ProgressFeed, log: Log):
    await feed.finish()

    assert log.entries == []


async def test_values_are_told_as_json_can_carry_them(feed: ProgressFeed, log: Log):
    feed({"at": datetime(2023, 1, 2, tzinfo=UTC), "tags": {"a"}}, kept=True)

    await feed.finish()

    [value] = log.values
    assert value["at"].startswith("2023-01-02T00:00:00")
    assert value["tags"] == ["a"]


async def test_a_value_that_is_too_long_is_cut(feed: ProgressFeed, log: Log):
    feed("x" * (EVENT_LIMIT + 1), kept=True)

    await feed.finish()

    assert log.longest <= EVENT_LIMIT
    assert log.values[0].endswith(f"[cut: {EVENT_LIMIT + 1} characters]")
