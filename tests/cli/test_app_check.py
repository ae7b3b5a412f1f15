"""Apps that cannot work, and what is said of them."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

import loops as ai
from api.app_check import problems_of_agent, problems_of_app


def same(text: str) -> str:
    """Say it again."""
    return text


class Mute:
    name = "mute"


class Coroutine(Mute):
    async def stream(self, request: ai.ModelRequest) -> None:
        del request


class Own(ai.Agent):
    async def loop(self, context: ai.Context) -> AsyncIterator[Any]:
        yield context.last_message


async def echo(context: ai.Context) -> AsyncIterator[str]:
    yield context.last_message


MODEL = ai.scripted("hi")

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "it has no model"),
    ({"model": "acme/large"}, "no provider is registered for the vendor 'acme'"),
    ({"model": "large"}, "a model is named 'vendor/model'"),
    ({"model": Mute()}, "'mute' has no stream"),
    ({"model": Coroutine()}, "the stream of the model port 'mute' is no async generator"),
    ({"model": MODEL, "tools": [same, same]}, "2 tools are named 'same'"),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said for _, said in WRONG])
def test_an_agent_that_cannot_work_has_one_problem(options: dict[str, Any], said: str) -> None:
    app = ai.App({"it": ai.Agent(**options)})

    found = [*problems_of_agent(app, "it")]

    assert [bool(re.search(re.escape(said), each)) for each in found] == [True]


@pytest.mark.parametrize(
    "agent", [echo, Own(), ai.Agent(model=MODEL), ai.Agent(model=MODEL, tools=[same])]
)
def test_an_agent_that_works_has_none(agent: Any) -> None:
    app = ai.App({"it": agent})

    assert [*problems_of_app(app), *problems_of_agent(app, "it")] == []


def test_an_app_without_agents_or_with_two_tools_of_one_name_has_problems() -> None:
    assert ["it has no agents" in each for each in problems_of_app(ai.App())] == [True]
    app = ai.App({"it": echo}, tools=[same, same])
    assert ["'same'" in each for each in problems_of_app(app)] == [True]
