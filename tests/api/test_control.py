"""A run is spoken to, and begun again, over HTTP."""

from typing import Any

import httpx
import pytest

from api.app import Api
from tests.api.author import Author, begin
from tests.api.conftest import client_of
from worker.resources import Resources

BEGIN: dict[str, Any] = {"agent": "echo", "input": "go"}


@pytest.fixture
async def author(resources: Resources) -> Author:
    return await begin(resources)


async def test_a_run_that_goes_on_is_spoken_to(app: Api, author: Author) -> None:
    path = f"/v1/runs/{author.run_id}/input"
    async with client_of(app) as client:
        said = await client.post(path, json={"input": "hurry"})
        unfit = await client.post(path, json={"input": "hurry", "agent": "echo"})
        foreign = await client.post("/v1/runs/run_0/input", json={"input": "hurry"})
        await author.settle()
        late = await client.post(path, json={"input": "hurry"})

    assert (said.status_code, said.json()["id"]) == (202, author.run_id)
    assert unfit.status_code == 422
    assert foreign.status_code == 404
    assert (late.status_code, late.json()["code"]) == (409, "already_settled")


async def test_the_same_words_under_the_same_key_are_said_once(app: Api, author: Author) -> None:
    path, key = f"/v1/runs/{author.run_id}/input", {"Idempotency-Key": "k"}
    async with client_of(app) as client:
        answers = [await client.post(path, json={"input": "hurry"}, headers=key) for _ in range(2)]
        other = await client.post(path, json={"input": "stop"}, headers=key)
    names = author.resources.keys.run(author.tenant, author.run_id)

    assert [answer.status_code for answer in answers] == [202, 202]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert await author.resources.link.command("LLEN", names.steers) == 1


async def test_a_run_that_failed_is_begun_again(app: Api, author: Author) -> None:
    path = f"/v1/runs/{author.run_id}/retry"
    async with client_of(app) as client:
        early = await client.post(path)
        await author.settle("failed")
        answer = await client.post(path, json={"budget": {"turns": 3}})
        seen = (await client.get(f"/v1/runs/{answer.json()['id']}")).json()
        again = await client.post(path)

    assert (early.status_code, early.json()["code"]) == (409, "still_running")
    assert answer.status_code == 202
    assert answer.json()["links"]["retry"].endswith("/retry")
    assert (seen["retry_of"], seen["status"]) == (author.run_id, "queued")
    assert (again.status_code, again.json()["code"]) == (409, "session_busy")


async def test_one_that_completed_is_not(app: Api, author: Author) -> None:
    await author.settle()
    async with client_of(app) as client:
        answer = await client.post(f"/v1/runs/{author.run_id}/retry")

    assert (answer.status_code, answer.json()["code"]) == (409, "already_settled")


@pytest.mark.parametrize("body", [{"budget": {"turns": 0}}, {"timeout": -1}, {"agent": "echo"}])
async def test_what_is_no_change_is_refused(
    client: httpx.AsyncClient, author: Author, body: dict[str, Any]
) -> None:
    answer = await client.post(f"/v1/runs/{author.run_id}/retry", json=body)

    assert answer.status_code == 422


async def test_a_new_run_may_be_said_to_the_one_that_goes_on(
    client: httpx.AsyncClient,
) -> None:
    first = await client.post("/v1/runs", json={**BEGIN, "session_id": "s"})
    steered = {**BEGIN, "session_id": "s", "on_conflict": "steer"}
    second = await client.post("/v1/runs", json=steered)

    assert (second.status_code, second.json()["id"]) == (200, first.json()["id"])
