"""Hooks over HTTP: what runs wait for, answered once, and by who may."""

from typing import Any

import httpx
import pytest

from api.app import Api
from loops.question import Question
from tests.api.author import Author, begin
from tests.api.conftest import client_of
from worker.hook_desk import asked_of
from worker.resources import Resources

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"go": {"type": "boolean"}},
    "required": ["go"],
}

OPEN = """
local now = clock()
open_hook(KEYS[1], now, ARGV[1], ARGV[2], ARGV[3], now + tonumber(ARGV[4]), ARGV[5])
append(KEYS[1], 1, ARGV[6], now)
expire_live(KEYS[1], now, { ':hooks' })
"""


async def ask(author: Author, label: str = "ship", lasts: int = 60_000) -> str:
    """Open a hook, as a run does; return its key."""
    told, about, event = asked_of(Question(label, SCHEMA, lambda _: None, metadata={"a": 1}))
    key = f"hook:{label}:0"
    await author.evaluate(OPEN, key, label, told, lasts, about, event)
    return key


@pytest.fixture
async def author(resources: Resources) -> Author:
    return await begin(resources)


@pytest.fixture
def path(author: Author) -> str:
    return f"/v1/runs/{author.run_id}/hooks/ship"


async def test_an_open_hook_is_listed_and_answered(app: Api, author: Author, path: str) -> None:
    key = await ask(author)
    async with client_of(app) as client:
        listed = (await client.get("/v1/hooks?status=open")).json()
        answer = await client.post(path, json={"go": True})
        empty = (await client.get("/v1/hooks")).json()

    (hook,) = listed["hooks"]
    assert (hook["label"], hook["run_id"], hook["link"]) == ("ship", author.run_id, path)
    assert (hook["payload"], hook["metadata"], hook["status"]) == (SCHEMA, {"a": 1}, "open")
    assert answer.status_code == 200
    assert answer.json() == {
        "run_id": author.run_id,
        "label": "ship",
        "id": key,
        "status": "resolved",
    }
    assert empty == {"hooks": [], "next": None}


async def test_a_second_answer_is_409_and_a_late_one_410(
    app: Api, author: Author, path: str
) -> None:
    await ask(author)
    await ask(author, "late", lasts=0)
    async with client_of(app) as client:
        await client.post(path, json={"go": True})
        second = await client.post(path, json={"go": False})
        late = await client.post(path.replace("ship", "late"), json={"go": True})
        seen = await client.get(path)

    assert (second.status_code, second.json()["code"]) == (409, "already_settled")
    assert (late.status_code, late.json()["code"]) == (410, "hook_gone")
    assert seen.json()["status"] == "resolved"


@pytest.mark.parametrize("body", [{}, {"go": "perhaps"}, [], "go", 1])
async def test_what_does_not_fit_is_422_and_the_hook_stays_open(
    app: Api, author: Author, path: str, body: Any
) -> None:
    await ask(author)
    async with client_of(app) as client:
        refused = await client.post(path, json=body)
        answered = await client.post(path, json={"go": True})

    assert refused.status_code == 422
    assert "'ship'" in refused.json()["detail"]
    assert answered.status_code == 200


async def test_an_answer_has_its_limit(app: Api, author: Author, path: str) -> None:
    await ask(author)
    async with client_of(app) as client:
        refused = await client.post(path, json={"go": True, "more": "x" * 200_000})
        answered = await client.post(path, json={"go": True})

    assert (refused.status_code, answered.status_code) == (422, 200)


async def test_a_hook_may_be_closed_without_an_answer(app: Api, author: Author, path: str) -> None:
    await ask(author)
    async with client_of(app) as client:
        closed = await client.delete(path, params={"reason": "no more"})
        after = await client.get(path)

    assert closed.json()["status"] == "cancelled"
    assert after.json()["status"] == "cancelled"
    assert (await author.types())[-1] == "hook.cancelled"


async def test_an_answer_for_another_hook_of_the_label_is_refused(
    app: Api, author: Author, path: str
) -> None:
    key = await ask(author)
    async with client_of(app) as client:
        other = await client.post(path, params={"id": "hook:ship:9"}, json={"go": True})
        that = await client.post(path, params={"id": key}, json={"go": True})

    assert (other.status_code, that.status_code) == (422, 200)


@pytest.mark.parametrize("place", ["run_0/hooks/ship", "{run}/hooks/other"])
async def test_what_is_not_there_is_404(app: Api, author: Author, place: str) -> None:
    await ask(author)
    async with client_of(app) as client:
        answers: list[httpx.Response] = [
            await client.request(method, f"/v1/runs/{place.format(run=author.run_id)}", json={})
            for method in ("GET", "POST", "DELETE")
        ]

    assert [answer.status_code for answer in answers] == [404] * 3


async def test_a_cursor_of_a_closed_hook_is_told(app: Api, author: Author) -> None:
    await ask(author)
    async with client_of(app) as client:
        page = await client.get("/v1/hooks", params={"after": "run_1 hook:x:0"})

    assert page.status_code == 404
