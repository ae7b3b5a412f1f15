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


class Silent(ai.Agent):
    async def loop(self, context: ai.Context) -> None:  # type: ignore[override]  # the mistake
        context.add("nothing")


class Blocking(ai.Agent):
    def loop(self, context: ai.Context) -> Any:
        yield context.last_message


class Alone(ai.Agent):
    async def loop(self) -> Any:  # type: ignore[override]  # the mistake
        yield "alone"


class Handing(ai.Agent):
    def loop(self, context: ai.Context) -> Any:
        return ai.default_loop(context)


class Mute:
    name = "mute"


class Coroutine(Mute):
    async def stream(self, request: ai.ModelRequest) -> None:
        del request


class Nameless:
    async def stream(self, request: ai.ModelRequest) -> AsyncIterator[Any]:
        yield request


async def no_context() -> AsyncIterator[str]:
    yield "alone"


async def echo(context: ai.Context) -> AsyncIterator[str]:
    yield context.last_message


MODEL = ai.scripted("hi")

WRONG: list[tuple[Any, str]] = [
    (Silent(), "its loop is no async generator"),
    (Blocking(), "its loop is no async generator"),
    (Alone(), "its loop takes no context"),
    (no_context, "its loop takes no context"),
    (ai.Agent(), "it has no model"),
    (ai.Agent(model="acme/large"), "no provider is registered for the vendor 'acme'"),
    (ai.Agent(model="large"), "a model is named 'vendor/model'"),
    (ai.Agent(model=Mute()), "no `stream` that is an async generator"),  # type: ignore[arg-type]  # the mistake
    (ai.Agent(model=Coroutine()), "no `stream` that is an async generator"),  # type: ignore[arg-type]  # the mistake
    (ai.Agent(model=Nameless()), "has no name"),  # type: ignore[arg-type]  # the mistake
    (ai.Agent(model=MODEL, tools=[same, same]), "2 tools are named 'same'"),
]


@pytest.mark.parametrize(("agent", "said"), WRONG, ids=[said for _, said in WRONG])
def test_an_agent_that_cannot_work_has_one_problem(agent: Any, said: str) -> None:
    (problem,) = problems_of_agent(ai.App({"it": agent}), "it")

    assert re.search(re.escape(said), problem)


@pytest.mark.parametrize(
    "agent", [echo, Handing(), ai.Agent(model=MODEL), ai.Agent(model=MODEL, tools=[same])]
)
def test_an_agent_that_works_has_none(agent: Any) -> None:
    app = ai.App({"it": agent})

    assert [*problems_of_app(app), *problems_of_agent(app, "it")] == []


def test_an_app_without_agents_or_with_two_tools_of_one_name_has_problems() -> None:
    assert ["it has no agents" in each for each in problems_of_app(ai.App())] == [True]
    app = ai.App({"it": echo}, tools=[same, same])
    assert ["'same'" in each for each in problems_of_app(app)] == [True]
