"""Loops that yield, add and give what no store can hold as it is: their runs end all the same."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call_with, in_turn, scripted
from tests.worker.driving import Ended, milling
from worker.link import Link
from worker.run_record import RunStatus

HALF = "half \ud800 a character"


async def through(link: Link, loop: Any) -> Ended:
    async with milling(link, {"agent": loop}, tools=None) as mill:
        return await mill.through()


async def test_text_with_half_a_character_is_told_without_it(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        yield HALF

    ended = await through(link, loop)

    assert (ended.run.status, ended.run.attempt) == (RunStatus.COMPLETED, 1)
    assert ended.run.output is not None
    assert ended.run.output.startswith("half ")
    assert ended.of("text.delta")[0]["text"].endswith(" a character")


@pytest.mark.parametrize("output", [HALF, {"said": HALF}, b"\xff", {1, 2}, float("nan"), object()])
async def test_an_output_of_any_kind_is_kept_as_text(link: Link, output: Any):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        context.output = output
        yield "text"

    ended = await through(link, loop)

    assert (ended.run.status, ended.run.attempt) == (RunStatus.COMPLETED, 1)
    assert isinstance(ended.run.output, str)


async def test_a_message_with_half_a_character_is_kept_without_it(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        context.add(ai.Message(role="assistant", content=HALF))
        yield "text"

    ended = await through(link, loop)

    assert (ended.run.status, ended.run.attempt) == (RunStatus.COMPLETED, 1)
    assert "half " in str(ended.history[-1])


@pytest.mark.parametrize("value", [HALF, b"\xff", {1, 2}, float("nan"), 10**30, object()])
async def test_a_custom_event_of_any_value_is_published(link: Link, value: Any):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        yield ai.events.Custom("odd", value)

    ended = await through(link, loop)

    assert ended.run.status == RunStatus.COMPLETED
    assert len(ended.of("custom.odd")) == 1


async def test_an_error_with_half_a_character_fails_the_run(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        yield "text"
        raise ValueError(HALF)

    ended = await through(link, loop)

    assert ended.run.error is not None
    assert ended.run.error.code == "loop_failed"


async def test_a_step_that_gives_what_json_cannot_hold_fails_the_run(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        async def odd() -> object:
            return object()

        yield str(await context.step("odd", odd))

    ended = await through(link, loop)

    assert ended.run.error is not None
    assert (ended.run.error.code, ended.run.attempt) == ("loop_failed", 1)


async def test_a_loop_that_does_not_end_when_it_is_closed_is_left_to_itself(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        try:
            yield "text"
            raise KeyboardInterrupt
        finally:
            yield "more"

    ended = await through(link, loop)

    assert ended.run.error is not None
    assert "KeyboardInterrupt" in ended.run.error.message


async def test_a_call_with_half_a_character_is_performed(link: Link):
    @ai.tool
    async def send(to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"

    turn = [call_with("send", '{"to":"half \ud800"}', call_id="id \ud800")]
    agent = ai.Agent(model=scripted(in_turn(turn, "done")), tools=[send])
    async with milling(link, {"agent": agent}) as mill:
        ended = await mill.through()

    assert (ended.run.error, ended.run.output) == (None, "done")
    assert len(ended.results) == 1
