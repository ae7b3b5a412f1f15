"""Runs over HTTP: accepted, looked at, waited for, cancelled, forgotten."""

from typing import Any

import httpx
import pytest

from loops.tasks import Owner
from tests.api.author import Author, begin, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.api.reading import read
from tests.waiting import wait_until
from worker.resources import Resources

HELLO = {"agent": "echo", "input": "hello"}


@pytest.fixture
async def author(resources: Resources) -> Author:
    return await begin(resources)


async def test_an_accepted_run_says_where_to_go_on(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    answer = await client.post("/v1/runs", json=HELLO)

    receipt = answer.json()
    path = f"/v1/runs/{receipt['id']}"
    assert (answer.status_code, answer.headers["location"]) == (202, path)
    assert receipt["status"] == "queued"
    assert receipt["links"]["events"] == f"{path}/events"
    for name in ("self", "events", "result", "calls"):
        assert (await client.get(receipt["links"][name])).status_code in {200, 202}
    assert await resources.queue.depth("runs") == 1


async def test_an_id_cannot_be_guessed(client: httpx.AsyncClient) -> None:
    ids = {(await client.post("/v1/runs", json=HELLO)).json()["id"] for _ in range(5)}

    assert len(ids) == 5
    assert all(len(run_id.removeprefix("run_")) * 4 >= 122 for run_id in ids)


INPUTS: list[tuple[Any, list[dict[str, Any]]]] = [
    ("hi", [{"role": "user", "content": "hi"}]),
    ([{"role": "user", "content": "hi"}], [{"role": "user", "content": "hi"}]),
    (
        [
            {"role": "user", "content": [{"type": "text", "text": "é", "extra": [1]}]},
            {"role": "assistant", "content": "yes"},
        ],
        [
            {"role": "user", "content": [{"type": "text", "text": "é", "extra": [1]}]},
            {"role": "assistant", "content": "yes"},
        ],
    ),
]


@pytest.mark.parametrize(("given", "stored"), INPUTS)
async def test_an_input_is_a_text_or_messages(
    client: httpx.AsyncClient, resources: Resources, given: Any, stored: list[dict[str, Any]]
) -> None:
    run_id = (await client.post("/v1/runs", json={**HELLO, "input": given})).json()["id"]

    raw = await resources.link.command("GET", resources.keys.run("default", run_id).input)
    assert httpx.Response(200, content=raw).json() == stored


INVALID: list[dict[str, Any]] = [
    {},
    {"agent": "echo"},
    {"input": "hi"},
    {**HELLO, "input": ""},
    {**HELLO, "input": []},
    {**HELLO, "input": [{"role": "user"}]},
    {**HELLO, "input": [{"role": "tool", "content": "x"}]},
    {**HELLO, "input": [{"role": "user", "content": "x", "id": "1"}]},
    {**HELLO, "input": [{"role": "user", "content": [{"text": "no type"}]}]},
    {**HELLO, "input": [{"role": "user", "content": "x"}] * 1001},
    {**HELLO, "agent": 7},
    {**HELLO, "surprise": True},
    {**HELLO, "stream": "true"},
    {**HELLO, "timeout": 0},
    {**HELLO, "timeout": -1},
    {**HELLO, "timeout": 31 * 86400},
    {**HELLO, "timeout": "10"},
    {**HELLO, "session_id": "a:b"},
    {**HELLO, "session_id": "x" * 65},
    {**HELLO, "session_id": "a\n"},
    {**HELLO, "on_conflict": "sometimes"},
    {**HELLO, "metadata": {"a": 1}},
    {**HELLO, "metadata": {"a": "x" * 513}},
    {**HELLO, "metadata": {str(n): "x" for n in range(17)}},
]


@pytest.mark.parametrize("body", INVALID, ids=range(len(INVALID)))
async def test_what_is_no_run_is_422_and_says_where(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await client.post("/v1/runs", json=body)

    problem = answer.json()
    assert answer.status_code == 422
    assert (problem["code"], problem["status"]) == ("invalid_input", 422)
    assert problem["errors"]
    assert all(each["why"] for each in problem["errors"])


@pytest.mark.parametrize("body", [b"1", b'"text"', b"null", b"[]", b"true"])
async def test_a_body_that_is_no_object_is_422(client: httpx.AsyncClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/runs", content=body, headers=headers)

    assert answer.status_code == 422


async def test_an_agent_that_is_not_there_is_404_with_those_that_are(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    for name in ("nobody", "os.system", "__class__", "../echo", "x" * 200, "echo\n"):
        answer = await client.post("/v1/runs", json={**HELLO, "agent": name})

        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_loop")
        assert "'echo'" in answer.json()["detail"]
    assert await resources.queue.depth("runs") == 0


async def test_the_same_request_again_is_the_same_run(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await client.post("/v1/runs", json={**HELLO, "metadata": {"a": "1"}}, headers=headers)
    body = b'{"metadata": {"a":"1"}, "input":"hello","agent":"echo"}'
    content_type = {"Content-Type": "application/json"}
    again = await client.post("/v1/runs", content=body, headers={**headers, **content_type})

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert len((await client.get("/v1/runs")).json()["runs"]) == 1


async def test_another_request_under_the_same_key_is_409(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    await client.post("/v1/runs", json=HELLO, headers=headers)

    answer = await client.post("/v1/runs", json={**HELLO, "input": "other"}, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_that_is_none_is_400(client: httpx.AsyncClient, key: str) -> None:
    answer = await client.post("/v1/runs", json=HELLO, headers={"Idempotency-Key": key})

    assert answer.status_code == 400


async def test_a_session_that_is_taken_can_be_refused(client: httpx.AsyncClient) -> None:
    first = (await client.post("/v1/runs", json={**HELLO, "session_id": "mine"})).json()

    body = {**HELLO, "session_id": "mine", "on_conflict": "reject"}
    answer = await client.post("/v1/runs", json=body)

    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    assert first["id"] in answer.json()["detail"]


async def test_a_run_can_be_followed_by_the_request_that_starts_it(
    live: Live, web: httpx.AsyncClient, resources: Resources
) -> None:
    async with web.stream("POST", "/v1/runs", json={**HELLO, "stream": True}) as answer:
        run_id = answer.headers["location"].rpartition("/")[2]
        author = Author(resources, run_id, "", "default")
        await author.append(text("a"))
        await author.settle()
        body = await answer.aread()

    names = [name for name, _, _ in read(body).events]
    assert names == ["run.queued", "text.delta", "run.completed"]


async def test_a_run_shows_what_everybody_may_see(
    client: httpx.AsyncClient, author: Author
) -> None:
    run = (await client.get(f"/v1/runs/{author.run_id}")).json()

    assert set(run) == {
        "id", "session_id", "agent", "status", "attempt", "created_at", "started_at",
        "finished_at", "output", "error", "usage", "turns", "metadata", "last_seq", "parent_id",
        "retry_of",
    }  # fmt: skip
    assert (run["agent"], run["status"], run["last_seq"]) == ("echo", "queued", 1)


async def test_a_result_waits_for_the_end(
    client: httpx.AsyncClient, author: Author, resources: Resources
) -> None:
    owner = Owner()
    path = f"/v1/runs/{author.run_id}/result"
    assert (await client.get(path)).status_code == 202
    waiting = owner.start(client.get(f"{path}?wait=10"), name="result")
    await wait_until(lambda: _is_followed(resources, author), for_="the request to wait")
    await author.append(text("a"))

    await author.settle(output="done")

    answer = await waiting
    assert (answer.status_code, answer.json()["output"]) == (200, "done")


async def _is_followed(resources: Resources, author: Author) -> bool:
    ((_, subscribers),) = await resources.link.client.pubsub_numsub(author.keys.log)
    return int(subscribers) > 0


async def test_a_result_that_does_not_come_is_202(
    client: httpx.AsyncClient, author: Author
) -> None:
    answer = await client.get(f"/v1/runs/{author.run_id}/result?wait=0.05")

    assert (answer.status_code, answer.json()["status"]) == (202, "queued")


async def test_a_result_does_not_outwait_a_server_that_stops(
    live: Live, web: httpx.AsyncClient, author: Author
) -> None:
    owner = Owner()
    waiting = owner.start(web.get(f"/v1/runs/{author.run_id}/result?wait=60"), name="result")
    await wait_until(lambda: len(live.office.hub.followers) == 1)

    await live.stop()

    assert (await waiting).status_code == 202


async def test_a_cancel_of_a_run_that_nobody_drives_is_done_at_once(
    client: httpx.AsyncClient, author: Author
) -> None:
    answer = await client.post(f"/v1/runs/{author.run_id}/cancel")

    assert answer.status_code == 200
    assert answer.json() == {
        "id": author.run_id,
        "status": "cancelled",
        "is_settled": True,
        "stopping": [],
        "cancelled_calls": [],
    }


async def test_a_cancel_that_comes_too_late_is_409(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.settle()

    answer = await client.post(f"/v1/runs/{author.run_id}/cancel")

    assert (answer.status_code, answer.json()["code"]) == (409, "already_settled")


async def test_a_cancel_of_a_run_that_is_driven_is_202_and_may_wait(
    client: httpx.AsyncClient, author: Author, resources: Resources
) -> None:
    owner = Owner()
    await resources.link.command("HSET", author.keys.record, "status", "running")
    path = f"/v1/runs/{author.run_id}/cancel"
    assert (await client.post(path)).status_code == 202
    assert (await client.post(f"{path}?wait=0.05")).status_code == 202
    waiting = owner.start(client.post(f"{path}?wait=10"), name="cancel")
    await wait_until(lambda: _is_followed(resources, author), for_="the request to wait")

    await author.settle("cancelled")

    answer = await waiting
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_runs_are_listed_newest_first_in_pages(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    ids = [(await begin(resources)).run_id for _ in range(5)]
    seen: list[str] = []
    before = ""
    while before is not None:
        page = (await client.get(f"/v1/runs?limit=2{before and '&before=' + before}")).json()
        seen += [run["id"] for run in page["runs"]]
        before = page["next"]

    assert sorted(seen) == sorted(ids)


async def test_a_list_can_be_filtered(client: httpx.AsyncClient, resources: Resources) -> None:
    one, other = await begin(resources), await begin(resources)
    await other.settle("failed")

    failed = (await client.get("/v1/runs?status=failed")).json()["runs"]
    queued = (await client.get("/v1/runs?status=queued&agent=echo")).json()["runs"]

    assert [run["id"] for run in failed] == [other.run_id]
    assert [run["id"] for run in queued] == [one.run_id]
    assert (await client.get("/v1/runs?agent=other")).json()["runs"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "status=done"])
async def test_a_list_that_makes_no_sense_is_422(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/v1/runs?{query}")

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_run_that_has_ended_can_be_forgotten(
    client: httpx.AsyncClient, author: Author
) -> None:
    path = f"/v1/runs/{author.run_id}"
    assert (await client.delete(path)).status_code == 409
    await author.settle()

    assert (await client.delete(path)).status_code == 204

    assert (await client.get(path)).status_code == 404
    assert (await client.get(f"{path}/events")).status_code == 404


async def test_an_open_stream_of_a_forgotten_run_had_its_end(
    live: Live, web: httpx.AsyncClient, author: Author
) -> None:
    path = f"/v1/runs/{author.run_id}"
    async with Raw(live.port, f"{path}/events", "Accept: text/event-stream") as raw:
        await raw.piece()
        await author.settle()
        await web.delete(path)

        assert [name for name, _, _ in read(await raw.rest()).events] == ["run.completed"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_method_that_a_path_does_not_have_is_405(
    client: httpx.AsyncClient, method: str
) -> None:
    answer = await client.request(method, "/v1/runs")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
