"""The log in memory behaves as the one in Redis: the same story, told to both."""

from typing import Any, Protocol

import pytest
from fakeredis import FakeAsyncRedis
from pydantic import SecretStr

from api.channel import EventLog
from tests.api.author import Author, Event, begin, event, text
from tests.api.fake_log import FakeLog
from worker.event_log import LogEvent, decode_message
from worker.keys import Keys, RunKeys
from worker.resources import open_resources
from worker.settings import Settings


class Story(Protocol):
    """A run with the event `run.queued`, to which more can be done."""

    log: EventLog
    run: RunKeys
    client: Any

    async def append(self, *events: Event) -> int: ...
    async def cut(self, upto: int) -> None: ...
    async def lose(self, count: int) -> None: ...
    async def vanish(self) -> None: ...


class Fake:
    def __init__(self, log: FakeLog, client: Any) -> None:
        self.log, self.client = log, client
        self.run = Keys("t").run("default", "run_1")

    async def append(self, *events: Event) -> int:
        assert isinstance(self.log, FakeLog)
        return await self.log.append(self.run, *events)

    async def cut(self, upto: int) -> None:
        await self.log.cut(self.run, upto, {"text": "so far"})

    async def lose(self, count: int) -> None:
        self.log.lose(self.run, count)

    async def vanish(self) -> None:
        self.log.vanish(self.run)


class Real:
    def __init__(self, author: Author) -> None:
        self.author = author
        self.log, self.run = author.resources.log, author.keys
        self.client = author.resources.link.client

    async def append(self, *events: Event) -> int:
        return await self.author.append(*events)

    async def cut(self, upto: int) -> None:
        await self.author.cut(upto, {"text": "so far"})

    async def lose(self, count: int) -> None:
        await self.author.lose(count)

    async def vanish(self) -> None:
        await self.author.vanish()


@pytest.fixture(params=["fake", "real"])
async def story(request: pytest.FixtureRequest) -> Any:
    if request.param == "fake":
        async with FakeAsyncRedis() as client:
            fake = Fake(FakeLog(client), client)
            await fake.append(event("run.queued", agent="echo"))
            yield fake
    else:
        url = SecretStr(request.getfixturevalue("redis_url"))
        async with open_resources(Settings(redis_url=url, namespace="t")) as resources:
            yield Real(await begin(resources))


def seen(events: list[LogEvent]) -> list[tuple[int, str, int | None, dict[str, Any]]]:
    return [(each.seq, each.type, each.turn, each.data) for each in events]


async def test_events_are_read_past_the_cursor_also_within_an_entry(story: Story) -> None:
    assert await story.append(text("a"), text("b"), text("c")) == 4

    found = seen(await story.log.read(story.run, after=2))

    assert found == [
        (3, "text.delta", 1, {"block": 0, "text": "b"}),
        (4, "text.delta", 1, {"block": 0, "text": "c"}),
    ]
    assert await story.log.read(story.run, after=4) == []
    assert await story.log.last_seqs([story.run]) == [4]


async def test_the_limit_counts_entries(story: Story) -> None:
    await story.append(text("a"), text("b"))
    await story.append(text("c"))

    found = await story.log.read(story.run, limit=2)

    assert [each.seq for each in found] == [1, 2, 3]


async def test_a_cut_log_begins_later_and_has_a_snapshot(story: Story) -> None:
    await story.append(text("a"))
    await story.append(text("b"))
    assert await story.log.snapshot(story.run) is None

    await story.cut(2)

    snapshot = await story.log.snapshot(story.run)
    assert snapshot is not None
    assert (snapshot.seq, snapshot.state) == (2, {"text": "so far"})
    assert [each.seq for each in await story.log.read(story.run)] == [3]


async def test_a_log_that_lost_events_is_shorter(story: Story) -> None:
    await story.append(text("a"))
    await story.append(text("b"))

    await story.lose(1)

    assert await story.log.last_seqs([story.run]) == [2]
    assert [each.seq for each in await story.log.read(story.run)] == [1, 2]


async def test_a_run_that_is_gone_has_no_last_seq(story: Story) -> None:
    await story.vanish()

    assert await story.log.last_seqs([story.run]) == [None]
    assert await story.log.read(story.run) == []


@pytest.mark.parametrize("size", [1, 70_000])
async def test_the_channel_says_what_was_appended(story: Story, size: int) -> None:
    async with story.client.pubsub() as pubsub:
        await pubsub.subscribe(story.run.log)
        await pubsub.get_message(timeout=2)

        await story.append(text("x" * size), text("y"))
        message = await pubsub.get_message(timeout=2)

    first, last, events = decode_message(message["data"])
    assert (first, last) == (2, 3)
    assert (events is None) == (size > 65536)
    assert events is None or seen(events) == seen(await story.log.read(story.run, after=1))
