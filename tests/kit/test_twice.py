"""Several loops of the kit in one run, on the one session that it has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.kit import LLM, Session
from loops.providers.scripted import scripted
from tests.agents.runtimes import Through


def counting() -> LLM:
    """Return an agent that says how many messages it was shown, and the text of the last."""
    return LLM().model(scripted(lambda history: f"{len(history)}: {said(history[-1])}. "))


def said(message: Raw) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[-1].get("text", "")


async def by_the_context(context: ai.Context) -> None:
    context.add("Shorter")


async def by_the_session(context: ai.Context) -> None:
    session = await Session.open(context)
    await session.add_user("Shorter")


@pytest.mark.parametrize("ask", [by_the_context, by_the_session])
async def test_what_is_said_between_two_loops_is_heard_by_the_second(
    through: Through, ask: Any
) -> None:
    llm = counting()

    async def twice(context: ai.Context) -> AsyncIterator[Any]:
        async for event in llm.run(context=context):
            yield event
        await ask(context)
        async for event in llm.run(context=context):
            yield event

    outcome = await through(twice, "Hello")

    answers = [said(each) for each in outcome.history if each["role"] == "assistant"]
    assert answers == ["1: Hello. ", "3: Shorter. "]
    assert outcome.roles == ["user", "assistant", "user", "assistant"]


async def test_a_history_of_its_own_leaves_the_runs_alone(through: Through) -> None:
    llm = counting()

    async def aside(context: ai.Context) -> AsyncIterator[Any]:
        async for event in llm.run(context=context):
            yield event
        async for event in llm.run(context=ai.Context(messages="Aside")):
            yield event

    outcome = await through(aside, "Hello")

    assert outcome.roles == ["user", "assistant"]
