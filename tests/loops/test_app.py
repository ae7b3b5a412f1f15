from collections.abc import AsyncGenerator
from typing import Any

import pytest

from loops.agent import Agent
from loops.app import App
from loops.context import Context
from loops.errors import SetupError, UnknownLoop
from loops.events import AgentEvent, TextDelta
from loops.messages import Messages
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
    assert isinstance(app().agents["writer"], Writer)


async def test_the_loop_of_an_agent_gives_its_events() -> None:
    told = [event async for event in app().loop_of("echo")(Context(messages=Messages.of("hi")))]

    assert told == ["hi", {"type": "step", "step": "done"}]


def test_a_loop_that_gives_no_events_after_all_is_refused_when_it_is_called() -> None:
    def late(context: Context) -> Any:
        return coroutine(context)

    made = App({"late": late})

    with pytest.raises(SetupError, match="gives a coroutine and no events"):
        made.loop_of("late")(Context())


def test_tools_of_an_agent_come_before_those_of_the_app() -> None:
    assert app().tools_of("writer") == {"double": double}
    assert app().tools_of("kit") == {"double": double}
    assert app().tools_of("asker") == {"double": double_again}


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


async def coroutine(context: Context) -> None: ...


class Awaited(Agent):
    """An agent whose loop forgets to yield."""

    async def loop(self, context: Context) -> None:  # type: ignore[override]  # that is the point
        await coroutine(context)


class Deaf(Agent):
    """An agent whose loop takes no context."""

    async def loop(self) -> AsyncGenerator[object]:  # type: ignore[override]  # that is the point
        yield 1


class Delegating(Agent):
    """An agent whose loop gives another one's events on."""

    def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
        return super().loop(context)


class Twins:
    """What has a loop, and two tools of one name."""

    tools = (double, double_again)

    async def loop(self, context: Context) -> AsyncGenerator[object]:
        yield "never"


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (Picky, "cannot be made without arguments: .*'taste'; give an instance"),
        (dict, "a class, but not one of ai.Agent"),
        (lambda context: None, "the agent 'odd' is a plain def; write async def with yield"),
        (coroutine, "the agent 'odd' is a coroutine function: it has no yield"),
        (Awaited, "the loop of the agent 'odd' is a coroutine function: it has no yield"),
        (Awaited(), "the loop of the agent 'odd' is a coroutine function"),
        (Deaf, "the loop of the agent 'odd' is called with the run's context"),
        (Twins(), "two tools are named 'double': .*double and .*double_again"),
        (3, "an async generator function of a context; not 3"),
    ],
)
def test_what_has_no_loop_is_refused(agent: object, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        App({"odd": agent})  # type: ignore[dict-item]  # that is the point


def test_a_loop_may_give_another_ones_events_on() -> None:
    assert isinstance(App({"odd": Delegating}).agents["odd"], Delegating)


@pytest.mark.parametrize("agents", [[echo], {"echo"}, echo, "echo", Writer])
def test_agents_that_have_no_names_are_refused(agents: Any) -> None:
    with pytest.raises(SetupError, match="agents is a mapping of names to agents, like"):
        App(agents)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "ü", "x" * 65, 3])
def test_a_name_that_no_path_and_no_key_takes_is_refused(name: Any) -> None:
    with pytest.raises(SetupError, match=r"an agent's name is 1 to 64 letters, .* give it another"):
        App({name: echo})


def test_tools_of_the_app_have_names_of_their_own() -> None:
    with pytest.raises(SetupError, match="two tools are named 'double'"):
        App({"echo": echo}, tools=[double, double_again])
