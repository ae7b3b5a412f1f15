"""Every client may stop after any event and go on from there, and all of them see the same."""

from typing import Any

import httpx
import orjson
import pytest
from redis.asyncio import Redis

from loops.tasks import Owner
from tests.api.author import Author, Event, begin, event, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.api.reading import read
from worker.resources import Resources

EVENTS = 200
STREAM = {"Accept": "text/event-stream"}


def story() -> list[Event]:
    """The events between the first and the last."""
    words = ["é\u2028", "line\nbreak", "\r\n", "😀" * 3, "data: x\n\n", "\0 and \x7f", ":"]
    pieces = [text(f"{n} {words[n % len(words)]}") for n in range(EVENTS - 2)]
    pieces[50] = event("custom.with\nbreak", 1, value={"deep": [1, None, {"a": "b"}]})
    pieces[150] = text("x" * 70_000)
    return pieces


async def write(author: Author) -> None:
    """Append the story in entries of one to seven events, and end the run."""
    events, at = story(), 0
    while at < len(events):
        count = at % 7 + 1
        await author.append(*events[at : at + count])
        at += count
    await author.settle()


@pytest.fixture
async def author(resources: Resources) -> Author:
    author = await begin(resources)
    await write(author)
    return author


async def by_socket(live: Live, author: Author, after: int) -> list[bytes]:
    path = f"/v1/runs/{author.run_id}/events?after={after}"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        assert raw.status == 200
        return [data.encode() for _, data, _ in read(await raw.rest()).events]


async def by_httpx(web: httpx.AsyncClient, author: Author, after: int) -> list[bytes]:
    headers = {**STREAM, "Last-Event-ID": str(after)}
    answer = await web.get(f"/v1/runs/{author.run_id}/events", headers=headers)
    return [data.encode() for _, data, _ in read(answer.content).events]


async def by_redis(client: Redis, author: Author, after: int) -> list[dict[str, Any]]:
    """What anybody can read who knows the format: the id is the last seq, the rest is counted."""
    found: list[dict[str, Any]] = []
    for entry_id, fields in await client.xrange(author.keys.log, f"({after}-0"):
        events = orjson.loads(fields[b"events"])
        first = int(entry_id.partition(b"-")[0]) - len(events) + 1
        found += [{"seq": seq, **each} for seq, each in enumerate(events, first) if seq > after]
    return found


def essence(line: bytes) -> dict[str, Any]:
    whole = orjson.loads(line)
    return {key: whole[key] for key in ("seq", "type", "turn", "data") if key in whole}


async def test_every_client_resumes_at_every_event(
    live: Live, web: httpx.AsyncClient, author: Author
) -> None:
    whole = await by_socket(live, author, 0)
    assert [orjson.loads(line)["seq"] for line in whole] == list(range(1, EVENTS + 1))

    for after in range(EVENTS):
        assert await by_socket(live, author, after) == whole[after:], f"socket after {after}"
        assert await by_httpx(web, author, after) == whole[after:], f"httpx after {after}"
        by_hand = await by_redis(author.resources.link.client, author, after)
        assert by_hand == [essence(line) for line in whole[after:]], f"redis after {after}"

    answer = await web.get(f"/v1/runs/{author.run_id}/events?after={EVENTS}", headers=STREAM)
    assert answer.status_code == 204


async def test_pages_and_lines_hold_the_same_bytes_as_the_stream(
    live: Live, web: httpx.AsyncClient, author: Author
) -> None:
    whole = await by_socket(live, author, 0)

    lines = await web.get(
        f"/v1/runs/{author.run_id}/events", headers={"Accept": "application/x-ndjson"}
    )
    after, paged = 0, list[Any]()
    while True:
        page = await web.get(f"/v1/runs/{author.run_id}/events?after={after}&limit=33")
        paged += page.json()["events"]
        after = page.json()["next"]
        if page.json()["done"]:
            break

    assert lines.content.splitlines() == whole
    assert paged == [orjson.loads(line) for line in whole]


async def test_readers_that_come_and_go_while_it_is_written_miss_and_repeat_nothing(
    live: Live, resources: Resources
) -> None:
    author, owner = await begin(resources), Owner()

    async def hop(patience: int) -> list[int]:
        """Read a few pieces at a time, on a connection each."""
        seen: list[int] = []
        while len(seen) < EVENTS:
            path = f"/v1/runs/{author.run_id}/events?after={len(seen)}"
            async with Raw(live.port, path, "Accept: text/event-stream") as raw:
                body = await raw.piece()
                for _ in range(patience - 1):
                    body += await raw.piece() if not raw.is_over else b""
            found = read(body).events
            seen += [int(position) for _, _, position in found]
        return seen

    hoppers = [owner.start(hop(n), name=f"reader {n}") for n in (1, 2, 3, 1, 2, 3)]
    await write(author)

    for hopper in hoppers:
        assert await hopper == list(range(1, EVENTS + 1))


async def test_the_status_can_be_read_when_the_last_event_arrives(
    live: Live, web: httpx.AsyncClient, resources: Resources
) -> None:
    author, owner = await begin(resources), Owner()
    path = f"/v1/runs/{author.run_id}/events"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        await raw.piece()
        owner.start(author.settle(output="done"), name="author")

        assert b"run.completed" in await raw.piece()
        run = (await web.get(f"/v1/runs/{author.run_id}")).json()

    assert (run["status"], run["output"]) == ("completed", "done")
    await owner.join()


async def test_fifty_readers_of_a_fast_run_each_get_everything_once(
    live: Live, resources: Resources
) -> None:
    author, owner = await begin(resources), Owner()
    path = f"/v1/runs/{author.run_id}/events"

    async def follow() -> list[str]:
        async with Raw(live.port, path, "Accept: text/event-stream") as raw:
            return [position for _, _, position in read(await raw.rest()).events]

    readers = []
    for n in range(50):
        readers.append(owner.start(follow(), name=f"reader {n}"))
        await author.append(text(f"{n}"), text("again"))
    await author.settle()

    for reader in readers:
        assert await reader == [str(seq) for seq in range(1, 103)]
