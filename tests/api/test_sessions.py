"""Sessions over HTTP, and the stream of all that happens in one."""

import time

import httpx
import orjson
import pytest

from api.app import Api
from loops.tasks import Owner
from tests.api.author import begin, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.api.reading import read
from tests.waiting import wait_until
from worker.resources import Resources


async def test_a_session_is_opened_read_and_forgotten(client: httpx.AsyncClient) -> None:
    opened = await client.post("/v1/sessions", json={"id": "mine", "metadata": {"a": "b"}})
    shown = (await client.get("/v1/sessions/mine")).json()

    assert opened.status_code == 201
    assert (shown["id"], shown["metadata"], shown["length"]) == ("mine", {"a": "b"}, 0)
    assert [each["id"] for each in (await client.get("/v1/sessions")).json()["sessions"]] == [
        "mine"
    ]
    assert (await client.delete("/v1/sessions/mine")).status_code == 204
    assert (await client.get("/v1/sessions/mine")).status_code == 404


async def test_a_session_needs_no_body(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions")

    assert answer.status_code == 201
    assert answer.json()["id"].startswith("ses_")


async def test_a_session_id_that_is_taken_is_422(client: httpx.AsyncClient) -> None:
    await client.post("/v1/sessions", json={"id": "mine"})

    assert (await client.post("/v1/sessions", json={"id": "mine"})).status_code == 422


async def test_a_session_is_opened_once_under_an_idempotency_key(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/v1/sessions", json={"metadata": {"a": "b"}}, headers=headers)
    again = await client.post("/v1/sessions", json={"metadata": {"a": "b"}}, headers=headers)
    other = await client.post("/v1/sessions", json={"metadata": {}}, headers=headers)

    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert len((await client.get("/v1/sessions")).json()["sessions"]) == 1


async def test_a_key_of_a_session_is_none_of_a_run(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    await client.post("/v1/sessions", headers=headers)

    run = await client.post("/v1/runs", json={"agent": "echo", "input": "hi"}, headers=headers)

    assert run.status_code == 202


async def test_a_page_of_a_session_is_not_done_because_the_server_stops(
    client: httpx.AsyncClient, app: Api, resources: Resources
) -> None:
    await begin(resources, session_id="mine")
    path = "/v1/sessions/mine/events"
    await client.get(path)
    owner = Owner()
    page = owner.start(client.get(f"{path}?after=1.1&wait=10"), name="page")
    await wait_until(lambda: len(app.office.hub.followers) == 1, for_="the reader")

    app.drain()

    assert (await page).json() == {"events": [], "next": "1.1", "done": False}


async def test_messages_come_in_pages(client: httpx.AsyncClient, resources: Resources) -> None:
    await client.post("/v1/sessions", json={"id": "mine"})
    names = resources.keys.session("default", "mine")
    for n in range(5):
        message = orjson.dumps({"role": "user", "content": str(n)})
        await resources.link.command("RPUSH", names.messages, message)
    await resources.link.command("EXPIRE", names.messages, 100)

    first = (await client.get("/v1/sessions/mine/messages?limit=3")).json()
    second = (await client.get(f"/v1/sessions/mine/messages?after={first['next']}")).json()

    contents = [each["message"]["content"] for each in first["messages"] + second["messages"]]
    assert contents == ["0", "1", "2", "3", "4"]
    assert [each["index"] for each in second["messages"]] == [3, 4]
    assert (await client.get("/v1/sessions/other/messages")).status_code == 404


async def test_a_sessions_stream_holds_its_runs_one_after_the_other(
    live: Live, resources: Resources
) -> None:
    first = await begin(resources, session_id="mine")
    await first.append(text("a"))
    await first.settle()
    path = "/v1/sessions/mine/events"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        body = await raw.piece()
        second = await begin(resources, session_id="mine")
        await second.append(text("b"))
        while b"2.2" not in body:
            body += await raw.piece()

    found = [(orjson.loads(data)["run"], position) for _, data, position in read(body).events]
    assert found == [
        *((first.run_id, f"1.{seq}") for seq in (1, 2, 3)),
        *((second.run_id, f"2.{seq}") for seq in (1, 2)),
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [("0", ["1.1", "1.2", "2.1", "2.2"]), ("1.1", ["1.2", "2.1", "2.2"]),
     ("1.2", ["2.1", "2.2"]), ("2.0", ["2.1", "2.2"]), ("2.1", ["2.2"]), ("2.2", [])],
)  # fmt: skip
async def test_a_sessions_stream_resumes_after_any_event(
    client: httpx.AsyncClient, resources: Resources, after: str, expected: list[str]
) -> None:
    for _ in range(2):
        author = await begin(resources, session_id="mine")
        await author.settle()

    page = (await client.get(f"/v1/sessions/mine/events?after={after}&limit=1000")).json()

    assert len(page["events"]) == len(expected)
    assert page["done"] is False


async def test_a_sessions_pages_follow_each_other(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    authors = [await begin(resources, session_id="mine") for _ in range(3)]
    for author in authors:
        await author.append(text("a"))
        await author.settle()
    seen: list[tuple[str, int]] = []
    after = "0"
    for _ in range(6):
        page = (await client.get(f"/v1/sessions/mine/events?after={after}&limit=2")).json()
        seen += [(each["run"], each["seq"]) for each in page["events"]]
        after = page["next"]

    assert seen == [(author.run_id, seq) for author in authors for seq in (1, 2, 3)]


async def test_a_run_that_was_deleted_is_a_gap_in_its_sessions_stream(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    first = await begin(resources, session_id="mine")
    await first.settle()
    await resources.runs.delete("default", first.run_id)
    second = await begin(resources, session_id="mine")
    await second.settle()

    page = (await client.get("/v1/sessions/mine/events?limit=3&wait=1")).json()

    assert page["events"][0]["type"] == "stream.gap"
    assert page["events"][0]["data"] == {"from": "1.1", "to": "2.0"}


async def test_a_session_that_is_deleted_ends_its_stream_with_an_error(
    live: Live, resources: Resources
) -> None:
    await resources.sessions.create("default", session_id="mine")
    owner = Owner()
    async with Raw(live.port, "/v1/sessions/mine/events", "Accept: text/event-stream") as raw:
        await raw.piece()

        owner.start(resources.sessions.delete("default", "mine"), name="delete")

        ((name, data, _),) = read(await raw.rest()).events
    assert name == "error"
    assert orjson.loads(data)["data"]["code"] == "session_gone"
    await owner.join()


@pytest.mark.parametrize("has_run", [True, False])
async def test_a_sessions_stream_ends_when_the_server_stops(
    live: Live, resources: Resources, has_run: bool
) -> None:
    if has_run:
        await begin(resources, session_id="mine")
    else:
        await resources.sessions.create("default", session_id="mine")
    async with Raw(live.port, "/v1/sessions/mine/events", "Accept: text/event-stream") as raw:
        await raw.piece()
        began = time.monotonic()

        await live.stop()

        await raw.rest()
        assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("cursor", ["1", "a.b", "1.2.3", "-1.0", ""])
async def test_a_sessions_cursor_that_is_none_is_400(
    client: httpx.AsyncClient, cursor: str
) -> None:
    await client.post("/v1/sessions", json={"id": "mine"})

    answer = await client.get("/v1/sessions/mine/events", params={"after": cursor})

    assert answer.status_code == 400
