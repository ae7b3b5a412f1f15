"""Approvals that come with the next message: they answer what waits in the session."""

from typing import Any

import httpx
import pytest

from api.app import Api
from loops.approval import approval_key
from loops.question import Question
from tests.api.author import Author, begin
from tests.api.conftest import client_of
from tests.api.test_hooks import OPEN
from worker.hook_desk import asked_of
from worker.resources import Resources

ARGUMENTS = {"to": "ann"}
KEY = approval_key("post", ARGUMENTS)


@pytest.fixture
async def author(resources: Resources) -> Author:
    """A run that waits for the approval of a call."""
    author = await begin(resources)
    about = {"tool": "post", "kwargs": ARGUMENTS}
    question = Question("approve_call_0", {"type": "object"}, lambda _: None, metadata=about)
    told, asked, event = asked_of(question)
    await author.evaluate(OPEN, "hook:approve_call_0:0", question.label, told, 60_000, asked, event)
    return author


async def say(app: Api, author: Author, **more: Any) -> httpx.Response:
    body = {"agent": "echo", "input": "go on", "session_id": author.session_id, **more}
    async with client_of(app) as client:
        return await client.post("/v1/runs", json=body)


async def state(author: Author, resources: Resources) -> Any:
    hook = await resources.hooks.load("default", author.run_id, "approve_call_0")
    return hook.status


async def test_an_approval_answers_the_card_of_its_call(
    app: Api, author: Author, resources: Resources
) -> None:
    answer = await say(app, author, approvals=[KEY])

    assert answer.status_code == 202
    assert await state(author, resources) == "resolved"


async def test_so_does_a_refusal(app: Api, author: Author, resources: Resources) -> None:
    await say(app, author, declined=[KEY])

    assert await state(author, resources) == "resolved"


async def test_the_same_request_again_gives_the_same_run(app: Api, author: Author) -> None:
    body = {"agent": "echo", "input": "go", "session_id": author.session_id, "approvals": [KEY]}
    headers = {"Idempotency-Key": "once"}
    async with client_of(app) as client:
        first = await client.post("/v1/runs", json=body, headers=headers)
        second = await client.post("/v1/runs", json=body, headers=headers)

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]


async def test_a_key_is_good_once(app: Api, author: Author) -> None:
    await say(app, author, approvals=[KEY])

    again = await say(app, author, approvals=[KEY])

    assert again.status_code == 422
    assert KEY in again.json()["detail"]


@pytest.mark.parametrize(
    "keys",
    [
        {"approvals": [approval_key("post", {"to": "bob"})]},
        {"approvals": [KEY], "declined": [KEY]},
        {"approvals": [KEY, "other"]},
        {"approvals": [""]},
    ],
)
async def test_keys_that_fit_nothing_answer_nothing(
    app: Api, author: Author, resources: Resources, keys: dict[str, Any]
) -> None:
    answer = await say(app, author, **keys)

    assert answer.status_code == 422
    assert await state(author, resources) == "open"


async def test_the_key_of_another_session_is_none_here(
    app: Api, author: Author, resources: Resources
) -> None:
    other = await begin(resources)

    answer = await say(app, other, approvals=[KEY])

    assert answer.status_code == 422
    assert await state(author, resources) == "open"
