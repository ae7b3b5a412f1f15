from collections.abc import AsyncGenerator

import pytest

from loops.agent import Agent
from loops.app import App
from loops.context import Context
from loops.errors import SetupError, UnknownLoop
from loops.events import TextDelta
from loops.providers.scripted import call, in_turn, scripted
from loops.tools import tool


@tool
async def double(number: int) -> int:
    """Double it."""
    return 2 * number


@tool(name="double")
async def double_again(number: int) -> int:
    return 4 * number


async def echo(context: Context) -> AsyncGenerator[object]:
    yield context.last_message
    yield {"type": "step", "step": "done"}


class Writer(Agent):
    """An agent of a class of its own."""

    TOOLS = (double,)


class Kit:
    """What has a loop and tools, and is no agent."""

    tools = (double, {"name": "raw"})

    async def loop(self, context: Context) -> AsyncGenerator[object]:
        yield "kit"


def app() -> App:
    model = scripted(in_turn([call("double", number=4)], "ok"), name="m")
    return App(
        {
            "writer": Writer,
            "asker": Agent(model=model, system="be kind"),
            "echo": echo,
            "kit": Kit(),
        },
        tools=[double_again],
        callbacks=["any"],
    )


async def test_an_agent_runs_to_its_end() -> None:
    outcome = await app().run("asker", "hi", chat_id="c")

    assert outcome.output == "ok"
    assert outcome.messages[2].tool_results[0].content == "16"
    assert outcome.usage.output_tokens
    assert outcome.events[-1].type == "turn.finished"


@pytest.mark.parametrize(("name", "said"), [("echo", "hi"), ("kit", "kit")])
async def test_whatever_has_a_loop_runs(name: str, said: str) -> None:
    outcome = await app().run(name, {"role": "user", "content": "hi"})

    assert outcome.output == said
    assert outcome.events[0] == TextDelta(0, said)


def test_a_class_is_made_one_agent() -> None:
    made = app()

    assert isinstance(made.agents["writer"], Writer)
    assert made.loop_of("writer") == made.agents["writer"].loop


def test_tools_of_an_agent_come_before_those_of_the_app() -> None:
    assert app().tools_of("writer") == {"double": double}
    assert app().tools_of("kit") == {"double": double}
    assert app().tools_of("asker") == {"double": double_again}


def test_an_app_knows_the_model_and_the_instructions_of_its_agents() -> None:
    model = app().model_of("asker")

    assert model is not None
    assert not isinstance(model, str)
    assert (model.name, app().system_of("asker")) == ("m", "be kind")
    assert (app().model_of("echo"), app().system_of("echo")) == (None, "")


def test_an_app_keeps_its_callbacks() -> None:
    assert app().callbacks == ["any"]
    assert App().agents == {}


async def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownLoop, match="'riter'; the app knows 'asker', 'echo', 'kit', 'writer'"
    ):
        await app().run("riter", "hi")


class Picky(Agent):
    """An agent that needs to be told something."""

    def __init__(self, taste: str) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (Picky, "cannot be made without arguments: .*'taste'; give an instance"),
        (dict, "a class, but not one of ai.Agent"),
        (lambda context: None, "an async generator function of a context; not <function"),
        (3, "not 3"),
    ],
)
def test_what_has_no_loop_is_refused(agent: object, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        App({"odd": agent})  # type: ignore[dict-item]  # that is the point
