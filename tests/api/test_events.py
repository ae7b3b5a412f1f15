"""The events of a run over HTTP: forms, cursors, filters, waiting."""

from datetime import timedelta

import httpx
import orjson
import pytest

from loops.tasks import Owner
from tests.api.author import Author, begin, event, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.api.reading import read
from tests.waiting import wait_until
from worker.resources import Resources

SSE = {"Accept": "text/event-stream"}


@pytest.fixture
async def author(resources: Resources) -> Author:
    """A run that is alive, with three events."""
    author = await begin(resources)
    await author.append(text("a"), text("b"))
    return author


@pytest.fixture
async def ended(author: Author) -> Author:
    """A run with four events, the last of which is its end."""
    await author.settle()
    return author


def path(author: Author, query: str = "") -> str:
    return f"/v1/runs/{author.run_id}/events{query}"


async def test_an_event_has_the_public_form(client: httpx.AsyncClient, ended: Author) -> None:
    answer = await client.get(path(ended), headers=SSE)

    first, second, _, last = (
        answer.text.removeprefix("retry: 1000\n").removesuffix("\n\n").split("\n\n")
    )
    assert second.split("\n")[:2] == ["id: 2", "event: text.delta"]
    whole = orjson.loads(second.split("\n")[2].removeprefix("data: "))
    assert whole.pop("time").endswith("Z")
    assert whole == {
        "seq": 2,
        "type": "text.delta",
        "run": ended.run_id,
        "session": ended.session_id,
        "attempt": 0,
        "turn": 1,
        "data": {"block": 0, "text": "a"},
    }
    assert first.startswith("id: 1\nevent: run.queued\n")
    assert last.startswith("id: 4\nevent: run.completed\n")


async def test_a_stream_is_neither_kept_nor_held_up_on_its_way(
    client: httpx.AsyncClient, ended: Author
) -> None:
    answer = await client.get(path(ended), headers={**SSE, "Accept-Encoding": "gzip, br"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in answer.headers


async def test_a_query_asks_for_a_stream_too(client: httpx.AsyncClient, ended: Author) -> None:
    answer = await client.get(path(ended, "?stream=true&after=2"))

    assert [position for _, _, position in read(answer.content).events] == ["3", "4"]


async def test_the_header_beats_the_query(client: httpx.AsyncClient, ended: Author) -> None:
    answer = await client.get(path(ended, "?after=1"), headers={**SSE, "Last-Event-ID": "3"})

    assert [position for _, _, position in read(answer.content).events] == ["4"]


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
async def test_a_stream_after_the_last_event_is_204(
    client: httpx.AsyncClient, ended: Author, accept: str
) -> None:
    answer = await client.get(path(ended, "?after=4"), headers={"Accept": accept})

    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_page_after_the_last_event_is_empty_and_done(
    client: httpx.AsyncClient, ended: Author
) -> None:
    answer = await client.get(path(ended, "?after=4"))

    assert answer.json() == {"events": [], "next": 4, "done": True}


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson", "*/*"])
async def test_a_cursor_ahead_of_a_run_that_has_ended_is_400(
    client: httpx.AsyncClient, ended: Author, accept: str
) -> None:
    answer = await client.get(path(ended, "?after=5"), headers={"Accept": accept})

    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_cursor"


@pytest.mark.parametrize("cursor", ["abc", "-", "+", "$", ">", "9" * 40, "1-2-3", "-1", "1.5"])
@pytest.mark.parametrize("accept", ["text/event-stream", "*/*"])
async def test_a_cursor_that_is_none_is_400(
    client: httpx.AsyncClient, author: Author, accept: str, cursor: str
) -> None:
    by_header = await client.get(path(author), headers={"Accept": accept, "Last-Event-ID": cursor})
    by_query = await client.get(path(author), params={"after": cursor}, headers={"Accept": accept})

    assert (by_header.status_code, by_query.status_code) == (400, 400)
    assert by_header.headers["content-type"] == "application/problem+json"


async def test_an_empty_header_is_a_reader_at_the_beginning(
    client: httpx.AsyncClient, ended: Author
) -> None:
    answer = await client.get(path(ended), headers={**SSE, "Last-Event-ID": ""})

    assert len(read(answer.content).events) == 4


async def test_a_cursor_ahead_of_a_live_run_is_a_gap_and_a_snapshot(
    client: httpx.AsyncClient, author: Author
) -> None:
    page = (await client.get(path(author, "?after=9"))).json()

    gap, snapshot = page["events"]
    assert (gap["type"], gap["data"]) == ("stream.gap", {"from": 4, "to": 9})
    assert (snapshot["type"], snapshot["data"]["last_seq"]) == ("state.snapshot", 3)
    assert page["next"] == 3


async def test_a_log_whose_head_was_cut_is_a_gap_and_a_snapshot(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.append(text("c"))
    await author.cut(3, {"text": "ab"})
    await author.settle()

    answer = await client.get(path(author, "?after=1"), headers=SSE)

    (gap, snapshot, *events) = read(answer.content).events
    assert (gap[0], gap[2], orjson.loads(gap[1])["data"]) == (
        "stream.gap",
        "3",
        {"from": 2, "to": 3},
    )
    assert (snapshot[0], snapshot[2]) == ("state.snapshot", "3")
    assert orjson.loads(snapshot[1])["data"] == {"last_seq": 3, "state": {"text": "ab"}}
    assert [position for _, _, position in events] == ["4", "5"]


async def test_a_page_never_parts_a_gap_from_its_snapshot(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.cut(3, {})

    page = (await client.get(path(author, "?limit=1"))).json()

    assert [each["type"] for each in page["events"]] == ["stream.gap", "state.snapshot"]
    assert page["next"] == 3


async def test_pages_follow_each_other(client: httpx.AsyncClient, ended: Author) -> None:
    first = (await client.get(path(ended, "?limit=3"))).json()
    second = (await client.get(path(ended, f"?limit=3&after={first['next']}"))).json()

    assert [each["seq"] for each in first["events"]] == [1, 2, 3]
    assert (first["next"], first["done"]) == (3, False)
    assert [each["seq"] for each in second["events"]] == [4]
    assert (second["next"], second["done"]) == (4, True)


NO_SENSE = ["limit=0", "limit=1001", "limit=x", "wait=61", "wait=-1", "wait=x", "wait=1e3"]


@pytest.mark.parametrize("query", [*NO_SENSE, "types=a%0Ab"])
async def test_a_query_that_makes_no_sense_is_400(
    client: httpx.AsyncClient, author: Author, query: str
) -> None:
    answer = await client.get(path(author, f"?{query}"))

    assert answer.status_code == 400
    assert answer.json()["status"] == 400


async def test_a_filtered_stream_shows_its_types_and_the_end(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.append(event("tool.finished", 1, call="c"), text("d"))
    await author.settle("failed")

    answer = await client.get(path(author, "?types=tool.finished,run.queued"), headers=SSE)

    found = [(name, position) for name, _, position in read(answer.content).events]
    assert found == [("run.queued", "1"), ("tool.finished", "4"), ("run.failed", "6")]


async def test_a_filtered_page_goes_on_after_what_it_did_not_show(
    client: httpx.AsyncClient, author: Author
) -> None:
    page = (await client.get(path(author, "?types=tool.finished"))).json()

    assert page == {"events": [], "next": 3, "done": False}


async def test_a_waiting_page_comes_with_the_first_event(
    client: httpx.AsyncClient, author: Author, resources: Resources
) -> None:
    owner = Owner()
    waiting = owner.start(client.get(path(author, "?after=3&wait=10")), name="page")
    await wait_until(lambda: _is_followed(resources, author), for_="the page to wait")

    await author.append(text("c"))

    page = (await waiting).json()
    assert [each["seq"] for each in page["events"]] == [4]


async def _is_followed(resources: Resources, author: Author) -> bool:
    ((_, subscribers),) = await resources.link.client.pubsub_numsub(author.keys.log)
    return int(subscribers) > 0


async def test_a_page_that_waited_in_vain_is_empty(
    client: httpx.AsyncClient, author: Author
) -> None:
    page = (await client.get(path(author, "?after=3&wait=0.05"))).json()

    assert page == {"events": [], "next": 3, "done": False}


async def test_events_reach_an_open_stream_as_they_happen(live: Live, resources: Resources) -> None:
    author = await begin(resources)
    async with Raw(live.port, path(author), "Accept: text/event-stream") as raw:
        assert b"run.queued" in await raw.piece()

        await author.append(text("a"), text("b"))
        piece = await raw.piece()

        assert piece.count(b"event: text.delta") == 2, "what is ready goes out in one write"
        await author.settle()
        assert b"run.completed" in await raw.piece()
        assert await raw.piece() == b"", "and the stream ends with the run"


async def test_a_run_that_is_deleted_under_its_reader_ends_with_an_error(
    live: Live, resources: Resources
) -> None:
    author = await begin(resources)
    async with Raw(live.port, path(author), "Accept: text/event-stream") as raw:
        await raw.piece()

        await author.vanish()

        ((name, data, position),) = read(await raw.rest()).events
    assert (name, position) == ("error", "1")
    assert orjson.loads(data)["data"]["code"] == "run_gone"


async def test_a_very_long_log_is_read_in_pages(client: httpx.AsyncClient, author: Author) -> None:
    for n in range(450):
        await author.append(text(str(n)))
    await author.settle()

    answer = await client.get(path(author), headers=SSE)

    positions = [int(position) for _, _, position in read(answer.content).events]
    assert positions == list(range(1, 455))


async def test_a_reader_that_leaves_is_forgotten_and_the_run_goes_on(
    live: Live, resources: Resources
) -> None:
    author = await begin(resources)
    async with Raw(live.port, path(author), "Accept: text/event-stream") as raw:
        await raw.piece()
        assert len(live.office.hub.followers) == 1

    await wait_until(
        lambda: len(live.office.hub.followers) == 0, timedelta(seconds=2), "the reader to go"
    )
    await author.append(text("a"))
    assert (await resources.runs.load("default", author.run_id)).status == "queued"
