"""Durable runs over real wires that break: cut, failed after the status, limited, overloaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

import loops as ai
from loops.providers.anthropic import AnthropicModel
from loops.providers.deployment import DeployedModel, Deployment, Price
from loops.providers.openai import OpenAIModel
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, Service, serving
from tests.waiting import wait_until
from tests.worker.driving import Ended, milling
from tests.worker.test_provider_failures import text_that_counts
from worker.link import Link
from worker.run_record import RunStatus

JSON = "application/json"
BUSY = Answer(
    [b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'],
    status=529,
    kind=JSON,
)
LIMITED = Answer(
    [b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'],
    status=429,
    kind=JSON,
    headers={"retry-after": "0"},
)
ASKS = a.reply(a.said(0, "I send"), a.called(1, "send", '{"to":"x"}'), stop_reason="tool_use")
SAYS = a.reply(a.said(0, "all is sent"))


def part(reply: bytes, upto: bytes) -> bytes:
    """Return the reply up to and with the last event that has the text in it."""
    return reply[: reply.index(b"\n\n", reply.rindex(upto)) + 2]


NAMED = part(ASKS, b'"content_block":{"type":"tool_use"')
HALF = NAMED + a.event(
    "content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"to"'}
)


@dataclass
class World:
    """What the tool did."""

    done: list[str] = field(default_factory=list[str])

    async def through(self, link: Link, model: ai.ModelPort) -> Ended:
        """Drive a run of an agent that may send letters to its end."""

        @ai.tool
        async def send(to: str) -> str:
            """Send a letter."""
            self.done.append(to)
            return f"sent to {to}"

        async with milling(link, {"agent": ai.Agent(model=model, tools=[send])}) as mill:
            return await mill.through()


def by_anthropic(service: Service) -> AnthropicModel:
    return AnthropicModel("m", base_url=service.url, api_key="k")


@pytest.mark.parametrize(
    "before",
    [
        [BUSY],
        [LIMITED],
        [Answer([a.failed("overloaded_error")])],
        [Answer([a.started() + a.said(0, "half"), a.failed("api_error")])],
        [Answer([part(ASKS, b'"text_delta"')], breaks_off=True)],
        [Answer([part(ASKS, b"partial_json")], breaks_off=True)],
        [Answer([a.started()]), BUSY],
        [Answer([NAMED], breaks_off=True)],
        [Answer([HALF], breaks_off=True)],
        [Answer([part(ASKS, b"partial_json")])],
        [Answer([a.failed("rate_limit_error")])],
        [Answer([a.started() + a.said(0, "half"), a.failed("rate_limit_error")])],
        [Answer([b'{"type":"error","error":{"type":"api_error","message":"x"}}'], kind=JSON)],
        [Answer([b"<html>busy</html>"], kind="text/html")],
        [Answer(is_mute=True, breaks_off=True)],
        [Answer(breaks_off=True)],
        [Answer([a.started() + a.said(0, *map(str, range(20)))], breaks_off=True)],
        [Answer([a.started() + a.said(0, *map(str, range(20))), a.failed("api_error")])] * 2,
    ],
    ids=["busy", "limited", "failed after the status", "failed after output", "cut in text",
         "cut in a call", "broke off, then busy", "cut after a call's name",
         "cut in a call's arguments", "ended after a call's arguments",
         "limited after the status", "limited after output", "an error instead of a stream",
         "HTML instead of a stream", "closed before the status", "closed before all",
         "cut after twenty deltas", "failed twice after twenty deltas"],
)  # fmt: skip
async def test_whatever_comes_before_it_a_reply_is_shown_and_done_once(
    link: Link, before: Sequence[Answer]
) -> None:
    world = World()
    async with serving(*before, Answer([ASKS]), Answer([SAYS])) as service:
        ended = await world.through(link, by_anthropic(service))

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "all is sent")
    assert ended.run.attempt == 1
    assert world.done == ["x"]
    assert text_that_counts(ended) == "I sendall is sent"
    assert len(service.asked) == len(before) + 2


@pytest.mark.parametrize("after", [b"content_block_stop", b"message_delta"])
async def test_a_reply_that_breaks_off_after_a_call_is_what_was_seen_of_it(
    link: Link, after: bytes
) -> None:
    world = World()
    cut = Answer([part(ASKS, after)], breaks_off=True)
    async with serving(cut, Answer([SAYS])) as service:
        ended = await world.through(link, by_anthropic(service))

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "all is sent")
    assert world.done == ["x"]
    assert "cut" in [data["stop_reason"] for data in ended.of("turn.finished")]
    assert service.asked[-1].body["messages"][-1]["content"][0]["content"] == "sent to x"


async def test_calls_of_a_server_that_numbers_them_wrong_are_each_done_once(link: Link) -> None:
    world = World()
    both = o.calls(call(0, "a", "send", '{"to":"x"}'), call(0, "b", "send", '{"to":"y"}'))
    asks, says = o.reply(both, reason="stop"), o.reply(o.said("all is sent"))
    async with serving(Answer([asks]), Answer([says])) as service:
        model = OpenAIModel("m", base_url=f"{service.url}/v1", api_key="k")
        ended = await world.through(link, model)

    assert ended.run.output == "all is sent"
    assert sorted(world.done) == ["x", "y"]
    results = [m for m in service.asked[1].body["messages"] if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in results] == ["a", "b"]


@pytest.mark.parametrize("times", [1, 4])
async def test_being_turned_away_costs_a_run_none_of_its_tries(link: Link, times: int) -> None:
    world = World()
    async with serving(*[LIMITED] * times, BUSY, BUSY, Answer([ASKS]), Answer([SAYS])) as service:
        ended = await world.through(link, by_anthropic(service))

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "all is sent")
    assert (ended.run.attempt, world.done) == (1, ["x"])
    assert len(service.asked) == times + 4


async def test_while_a_key_is_paused_no_run_asks_with_it(link: Link) -> None:
    limited = Answer(LIMITED.chunks, status=429, kind=JSON, headers={"retry-after-ms": "700"})
    async with serving(limited, Answer([SAYS])) as service:
        model = by_anthropic(service)
        async with milling(link, {"agent": ai.Agent(model=model)}) as mill:
            first = await mill.submit()
            await wait_until(lambda: len(service.asked) == 1, for_="the first to be turned away")
            others = [await mill.submit() for _ in range(6)]
            await mill.until(others[-1], "turn.started")
            asked = len(service.asked)
            ended = [await mill.ended(place) for place in (first, *others)]

    assert asked == 1
    assert [each.run.output for each in ended] == ["all is sent"] * 7
    assert {each.run.attempt for each in ended} == {1}
    assert len(service.asked) == 8


async def test_waiting_for_a_provider_does_not_count_against_a_runs_timeout(link: Link) -> None:
    limited = Answer(LIMITED.chunks, status=429, kind=JSON, headers={"retry-after-ms": "1500"})
    async with (
        serving(limited, Answer([SAYS])) as service,
        milling(link, {"agent": ai.Agent(model=by_anthropic(service))}) as mill,
    ):
        ended = await mill.through(timeout=timedelta(seconds=1))

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "all is sent")


async def test_a_configured_price_is_what_a_run_has_cost(link: Link) -> None:
    async with serving(Answer([SAYS])) as service:
        deployment = Deployment(
            "anthropic/m", base_url=service.url, api_key="k", price=Price(input=1000, output=5000)
        )
        agents = {"agent": ai.Agent(model=DeployedModel(deployment))}
        async with milling(link, agents) as mill:
            ended = await mill.through()

    assert ended.run.usage is not None
    assert ended.run.usage["cost"] == pytest.approx(10 * 0.001 + 20 * 0.005)
    assert ended.of("turn.finished")[0]["usage"]["cost"] == ended.run.usage["cost"]
