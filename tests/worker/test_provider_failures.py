"""Providers that fail in the middle of runs: nothing is lost, shown twice or done twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import loops as ai
from loops.errors import Overloaded, ProviderError, Unauthorized
from loops.events import ModelEvent, StreamEnd, StreamStart, TextDelta, TextEnd, TextStart, ToolEnd
from loops.model import ModelRequest
from tests.worker.driving import Ended, milling
from worker.link import Link
from worker.run_record import RunStatus


class Failing:
    """A model that gives one list of events an asking, and fails where an error stands."""

    name = "failing"

    def __init__(self, *askings: Sequence[ModelEvent | ProviderError]) -> None:
        self.askings = list(askings)
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        for event in self.askings.pop(0):
            await asyncio.sleep(0)
            if isinstance(event, ProviderError):
                raise event
            yield event


def said(text: str, block: int = 0) -> list[ModelEvent]:
    return [TextStart(block), TextDelta(block, text), TextEnd(block)]


START, END = StreamStart("m"), StreamEnd("end_turn")
BUSY = Overloaded("busy")
CALLED = ToolEnd(1, "call_0", "send", '{"to":"x"}')


class World:
    """What the tool did."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @ai.tool
        async def send(to: str) -> str:
            """Send a letter."""
            self.done.append(to)
            return f"sent to {to}"

        self.tools = [send]


@pytest.fixture
def world() -> World:
    return World()


def text_that_counts(ended: Ended) -> str:
    """Return the text that no reset has voided."""
    kept: list[Any] = []
    for event in ended.events:
        if event.type == "turn.reset":
            kept = [one for one in kept if one.seq <= event.data["after"]]
        elif event.type == "text.delta":
            kept.append(event)
    return "".join(event.data["text"] for event in kept)


async def test_a_failure_before_any_output_is_seen_by_nobody(link: Link):
    model = Failing([BUSY], [START, *said("hi"), END])
    async with milling(link, {"agent": ai.Agent(model=model)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, model.asked) == ("hi", 2)
    assert ended.of("turn.reset", "run.retrying") == []
    assert len(ended.of("turn.started")) == 1


async def test_a_failure_after_output_voids_it_and_costs_no_attempt(link: Link):
    model = Failing([START, *said("lost"), BUSY], [START, *said("hi"), END])
    async with milling(link, {"agent": ai.Agent(model=model)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, ended.run.attempt, model.asked) == ("hi", 1, 2)
    assert text_that_counts(ended) == "hi"
    [retrying] = ended.of("run.retrying")
    assert retrying["reason"] == "provider_failed"
    assert ended.of("turn.reset") == [{"after": 3, "reason": "provider_failed"}]
    assert len(ended.history) == 2


async def test_the_third_failure_reaches_the_loop_and_fails_the_run(link: Link):
    model = Failing(*[[START, *said("half"), BUSY]] * 3)
    async with milling(link, {"agent": ai.Agent(model=model)}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "overloaded")
    assert (ended.run.output, ended.run.attempt, model.asked) == ("half", 1, 3)
    assert [data["stop_reason"] for data in ended.of("turn.finished")] == ["error"]
    assert text_that_counts(ended) == "half"


async def test_a_loop_may_catch_the_failure_and_ask_another_model(link: Link):
    other = Failing([START, *said("fallback"), END])
    model = Failing(*[[START, *said("half"), BUSY]] * 3)
    caught: list[str] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        for port in (model, other):
            try:
                async for event in ai.stream(port, context.messages):
                    yield event
            except ProviderError as error:
                caught.append(error.code)

    async with milling(link, {"agent": loop}) as mill:
        ended = await mill.through()

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "fallback")
    assert (caught, model.asked, other.asked) == (["overloaded"], 3, 1)
    assert text_that_counts(ended) == "halffallback"


async def test_a_resumed_loop_meets_the_same_failure_again_without_asking(link: Link):
    model, gate = Failing([START, Unauthorized("who are you")]), asyncio.Event()
    caught: list[str] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        try:
            async for event in ai.stream(model, context.messages):
                yield event
        except ProviderError as error:
            caught.append(f"{error.code}: {error}")
        yield "caught"
        await gate.wait()

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        gate.set()
        ended = await mill.ended(place)

    assert caught == ["unauthorized: who are you"] * 2
    assert (model.asked, ended.run.status) == (1, RunStatus.COMPLETED)
    assert len(ended.of("text.delta")) == 1


async def test_a_failure_after_a_call_was_started_cuts_the_turn(link: Link, world: World):
    model = Failing(
        [START, *said("see"), CALLED, *said("more", 2), BUSY], [START, *said("done"), END]
    )
    async with milling(link, {"agent": ai.Agent(model=model, tools=world.tools)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, ended.run.attempt, model.asked) == ("done", 1, 2)
    assert world.done == ["x"]
    assert [data["stop_reason"] for data in ended.of("turn.finished")] == ["cut", "end_turn"]
    assert text_that_counts(ended) == "seedone"
    assert ended.results == ["sent to x"]
    assert len(ended.of("tool.queued")) == len(ended.of("tool.started")) == 1


async def test_a_failure_that_is_none_of_a_provider_fails_the_run(link: Link):
    class Broken:
        name = "broken"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield START
            raise RuntimeError("the adapter is broken")

    async with milling(link, {"agent": ai.Agent(model=Broken())}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert ended.run.error.code == "loop_failed"
    assert "the adapter is broken" in ended.run.error.message
