"""Calls of the gateway on workers: what is kept of them, and what becomes of them in a storm."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from loops.gateway.rounds import Surface
from loops.gateway.settings import GatewaySettings
from loops.providers.deployment import Price
from loops.tasks import Owner
from tests.api.author import Author
from tests.gateway.rounds_in_process import (
    ASKS,
    CHAT,
    FOUND,
    MESSAGES,
    SURFACES,
    TWO,
    Raw,
    answering,
    builder,
    hearing,
    raises,
)
from tests.gateway.upstream import Asked, Script, Told, in_turn, says
from tests.gateway.whole import Whole, frames_of, whole
from tests.waiting import wait_until

pytestmark = pytest.mark.gateway

LIVE = [(MESSAGES, ""), (MESSAGES, "merged"), (CHAT, "merged")]
"""Streams of which the caller sees something before a round is over."""

SOON = timedelta(seconds=2)

UNASKED = {"async_should_run_agentic_loop": raises(AssertionError("nobody asks it"))}


def error_in(surface: Surface, frames: list[tuple[str, str]]) -> str:
    """Return the error with which a stream ends."""
    if surface is MESSAGES:
        name, data = frames[-1]
        assert name == "error"
        return data
    errors = [data for _, data in frames if data.startswith('{"error"')]
    assert frames[-1][1] in {errors[-1], "[DONE]"}
    return errors[-1]


@pytest.mark.parametrize(("surface", "mode"), LIVE)
async def test_a_provider_that_breaks_off_in_a_live_stream_ends_it_with_an_error(
    redis_url: str, surface: Surface, mode: str, caplog: pytest.LogCaptureFixture
):
    cut = says("let me look", calls=ASKS.calls, cut_after=4)

    async with whole(redis_url, cut, answering(**UNASKED), protocol=surface) as gateway:
        answer = await gateway.post(surface, mode=mode, stream=True)

    assert answer.status_code == 200
    assert error_in(surface, frames_of(answer.text))
    assert len(gateway.up.requests) == 1
    assert "nobody asks it" not in caplog.text


def cut_at_first(first: Told, *then: Told) -> Script:
    """Return a script that begins with an answer that is given once, and goes on in turn."""
    given: list[Asked] = []
    others = in_turn(*then)

    def script(asked: Asked) -> Any:
        given.append(asked)
        return first if len(given) == 1 else others(asked)

    return script


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_is_held_is_asked_again_and_its_caller_sees_nothing_of_it(
    redis_url: str, surface: Surface
):
    script = cut_at_first(says("lost in the middle", cut_after=4), ASKS, FOUND)

    async with whole(redis_url, script, answering(), protocol=surface) as gateway:
        answer = await gateway.post(surface, mode="hold", stream=True)

    assert len(gateway.up.requests) == 3
    assert "lost" not in answer.text
    assert "error" not in answer.text
    assert "ound" in answer.text


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_later_round_of_a_body_is_asked_again(redis_url: str, surface: Surface):
    second: list[Asked] = []

    def script(asked: Asked) -> Told:
        if not [each for each in asked.body["messages"] if each["role"] == "assistant"]:
            return ASKS
        second.append(asked)
        return says("lost in the middle", cut_after=4) if len(second) == 1 else FOUND

    # The provider speaks the other protocol, so that it streams and can break off.
    other = CHAT if surface is MESSAGES else MESSAGES
    async with whole(redis_url, script, answering(), protocol=other) as gateway:
        answer = await gateway.post(surface)

    assert (answer.status_code, len(second)) == (200, 2)
    assert "lost" not in answer.text
    assert "found it" in answer.text


async def first_of(gateway: Whole, surface: Surface, **more: Any) -> str:
    """Read the beginning of a stream, leave it, and return the run's id."""
    body = {"model": "main", "max_tokens": 9, "stream": True, **more}
    body["messages"] = [{"role": "user", "content": "hi"}]
    path = "/v1/messages" if surface is MESSAGES else "/v1/chat/completions"
    async with gateway.client.stream("POST", path, json=body) as answer:
        async for _ in answer.aiter_bytes():
            return str(answer.headers["x-request-id"])
    raise AssertionError("nothing came")


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_caller_who_leaves_ends_the_run_and_the_providers_work(
    redis_url: str, surface: Surface
):
    never = asyncio.Event()
    told = says("let me look, and look", gates={4: never})

    async with whole(redis_url, told, protocol=surface) as gateway:
        run_id = await first_of(gateway, surface)

        await wait_until(lambda: gateway.up.left == 1, SOON, "the provider to be left")
        ended = await gateway.mill.resources.runs.load("default", run_id)
        await wait_until(lambda: _has_ended(gateway, run_id), SOON, "the run to end")
        ended = await gateway.mill.resources.runs.load("default", run_id)

    assert ended.status == "cancelled"


async def _has_ended(gateway: Whole, run_id: str) -> bool:
    return (await gateway.mill.resources.runs.load("default", run_id)).is_settled


async def test_a_builder_that_has_begun_is_finished_and_recorded_when_its_caller_leaves(
    redis_url: str,
):
    begun, released, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def build(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> Any:
        begun.set()
        await released.wait()
        done.set()
        return await builder(self, tools, messages)

    own = answering(async_build_agentic_loop_plan=build)
    async with whole(redis_url, TWO, own) as gateway:
        run_id = await first_of(gateway, MESSAGES)
        await begun.wait()
        await wait_until(lambda: _is_cancelling(gateway, run_id), for_="the cancelling")
        assert not done.is_set()
        released.set()
        await wait_until(lambda: _has_ended(gateway, run_id), for_="the run to end")
        events = await gateway.log(run_id)

    assert (done.is_set(), len(gateway.up.requests)) == (True, 1)
    finished = [event.data["name"] for event in events if event.type == "step.finished"]
    assert finished == ["plan:0:0:Mine"]
    assert events[-1].type == "run.cancelled"


async def _is_cancelling(gateway: Whole, run_id: str) -> bool:
    found = await gateway.mill.link.command("HGETALL", gateway.place(run_id).record)
    return "cancel" in repr(found)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
async def test_where_no_worker_is_the_caller_is_told_in_time(
    redis_url: str, surface: Surface, stream: bool
):
    told = GatewaySettings(wait=timedelta(seconds=0.2))

    async with whole(redis_url, FOUND, told=told, workers=0) as gateway:
        began = time.monotonic()
        answer = await gateway.post(surface, stream=stream)
        took = time.monotonic() - began
        run = await gateway.mill.resources.runs.load("default", answer.headers["x-request-id"])

    assert (answer.status_code, run.status) == (503, "cancelled")
    assert int(answer.headers["retry-after"]) > 0
    assert 0.2 <= took < 2
    error = answer.json()["error"]
    assert "no worker" in error["message"]
    assert error["type"] == ("api_error" if surface is MESSAGES else "server_error")


async def test_a_caller_is_told_when_the_last_worker_has_gone(redis_url: str):
    told = GatewaySettings(wait=timedelta(seconds=0.3))
    owner = Owner()

    async with whole(redis_url, FOUND, told=told, workers=0) as gateway:
        asked = owner.start(gateway.post(MESSAGES), name="asked")
        runs = gateway.mill.resources.runs

        async def is_there() -> bool:
            return bool((await runs.page("default")).runs)

        await wait_until(is_there, for_="the run to be accepted")
        [run] = (await runs.page("default")).runs
        author = Author(gateway.mill.resources, run.id, run.session_id, "default")
        await author.append({"type": "run.started", "data": {"worker": "w"}})
        answer = await asked

    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "api_error")


@pytest.mark.parametrize("surface", SURFACES)
async def test_signs_of_life_come_while_a_builder_takes_its_time(redis_url: str, surface: Surface):
    released = asyncio.Event()

    async def build(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> Any:
        await released.wait()
        return await builder(self, tools, messages)

    own, told = answering(async_build_agentic_loop_plan=build), timedelta(seconds=0.2)
    async with whole(
        redis_url, TWO, own, told=GatewaySettings(ping=told), protocol=surface
    ) as gateway:
        text, sign = "", "event: ping\n" if surface is MESSAGES else ": ping\n"
        async with _hold(gateway, surface) as answer:
            async for chunk in answer.aiter_text():
                text += chunk
                if text.count(sign) >= 3:
                    released.set()

    before, _, _ = text.partition("ound")
    assert before != text
    assert text.startswith(sign)
    assert before.count(sign) >= 3


def _hold(gateway: Whole, surface: Surface) -> Any:
    path = "/v1/messages" if surface is MESSAGES else "/v1/chat/completions"
    body = {"model": "main", "max_tokens": 9, "stream": True}
    body["messages"] = [{"role": "user", "content": "hi"}]
    headers = {"x-loopmill-streaming": "hold"}
    return gateway.client.stream("POST", path, json=body, headers=headers)


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_all_rounds_have_cost_is_told_and_recorded(redis_url: str, surface: Surface):
    deployment = {"price": Price(input=100_000, output=200_000)}

    async with whole(
        redis_url, TWO, answering(), protocol=surface, deployment=deployment
    ) as gateway:
        answer = await gateway.post(surface)
        run = await gateway.mill.resources.runs.load("default", answer.headers["x-request-id"])

    assert float(answer.headers["x-loopmill-response-cost"]) == pytest.approx(4.0)
    assert run.usage is not None
    assert (run.usage["input_tokens"], run.usage["output_tokens"]) == (20, 10)
    assert run.usage["cost"] == pytest.approx(4.0)
    assert [turn["usage"]["input_tokens"] for turn in run.turns] == [10, 10]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_id_of_the_request_is_the_runs(redis_url: str, stream: bool):
    async with whole(redis_url, TWO, answering()) as gateway:
        answer = await gateway.post(MESSAGES, stream=stream)
        run_id = answer.headers["x-request-id"]
        await wait_until(lambda: _has_ended(gateway, run_id), for_="the run to end")
        run = await gateway.mill.resources.runs.load("default", run_id)
        events = await gateway.log(run_id)

    assert (run.id, run.status) == (run_id, "completed")
    assert len([each for each in events if each.type == "custom.round"]) == 2


async def test_what_was_said_is_gone_soon_and_the_record_stays(redis_url: str):
    async with whole(redis_url, TWO, answering()) as gateway:
        answer = await gateway.post(MESSAGES)
        run_id = answer.headers["x-request-id"]
        await wait_until(lambda: _has_ended(gateway, run_id), for_="the run to end")
        record = gateway.place(run_id).record
        lasting = await _lasting(redis_url, timedelta(minutes=5))
        record_lasts = await gateway.mill.link.command("PTTL", record)
        told = await gateway.mill.link.command("HGETALL", record)

    assert record_lasts > timedelta(hours=1) / timedelta(milliseconds=1)
    assert [
        name for name, text in lasting.items() if "let me look" in text or "found it" in text
    ] == []
    assert "found it" not in repr(told)


async def _lasting(redis_url: str, than: timedelta) -> dict[str, str]:
    """Return what stands in the keys that live longer."""
    lasting: dict[str, str] = {}
    async with Redis.from_url(redis_url) as redis:
        for name in await redis.keys():
            left = await redis.pttl(name)
            if left == -1 or left > than / timedelta(milliseconds=1):
                lasting[name.decode()] = repr(await redis.dump(name))
    return lasting


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_plan_that_is_recorded_is_not_built_again(redis_url: str, surface: Surface):
    heard: list[str] = []
    second = asyncio.Event()

    async def script(asked: Asked) -> Told:
        if not [each for each in asked.body["messages"] if each["role"] == "assistant"]:
            return ASKS
        if not second.is_set():
            second.set()
            return says("lost", gates={0: asyncio.Event()})
        return FOUND

    own = answering(
        async_build_agentic_loop_plan=hearing(heard, lambda _: "plan", builder),
        async_post_agentic_loop_response_hook=hearing(heard, lambda _: "post", gives_response),
    )
    async with whole(redis_url, script, own, workers=2, protocol=surface) as gateway:
        coming = Owner().start(gateway.post(surface, mode="hold", stream=True), name="caller")
        await second.wait()
        [run_id] = await _runs(redis_url)
        await gateway.mill.lapse("runs", gateway.mill.resources.keys.run_job("default", run_id))
        answer = await coming

    assert "ound" in answer.text
    assert (heard.count("plan"), heard.count("post")) == (1, 1)


async def gives_response(self: Any, response: Any, **_: Any) -> Any:
    return response


async def _runs(redis_url: str) -> list[str]:
    async with Redis.from_url(redis_url) as redis:
        names = [name.decode() for name in await redis.keys("*:log")]
    return [name.split(":")[-2] for name in names if "run_" in name]
