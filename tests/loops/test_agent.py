from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from loops.agent import Agent, current_agent
from loops.agent_stream import AgentStream
from loops.context import Context
from loops.errors import SetupError
from loops.events import AgentEvent, StreamEnd, TextDelta, ToolCallResult
from loops.messages import Messages, ToolCall
from loops.providers.scripted import call, in_turn, scripted
from loops.stream import stream as ask
from loops.testing import collect
from loops.tools import tool
from loops.util import merge

Ticks = Callable[[], Awaitable[None]]


@tool
async def double(number: int) -> int:
    return 2 * number


async def test_what_is_given_to_the_run_goes_before_what_the_agent_has() -> None:
    agent = Agent(model=scripted("no"), max_turns=7, params={"t": 0})

    stream = agent.run(scripted("yes"), ["hi"], params={"t": 1}, chat_id="c")

    assert [e.text for e in await collect(stream) if isinstance(e, TextDelta)] == ["yes"]
    assert (stream.context.params, stream.context.max_turns) == ({"t": 1}, 7)
    assert stream.context.session == "c"


async def test_one_agent_serves_many_runs() -> None:
    agent = Agent(model=scripted(in_turn([call("double", number=4)], "ok")), tools=[double])

    async with agent.run(messages="a") as one, agent.run(messages="b") as two:
        events = await collect(merge(one, two))

    assert [e.content for e in events if isinstance(e, ToolCallResult)] == [8, 8]
    assert (one.messages[0].text, two.messages[0].text) == ("a", "b")


async def test_the_messages_of_the_caller_are_left_alone() -> None:
    given = Messages.of("hi")

    stream = Agent(model=scripted("ho")).run(messages=given)
    await collect(stream)

    assert given == Messages.of("hi")
    assert len(stream.messages) == 2


def test_tools_of_the_class_come_before_those_of_the_instance() -> None:
    def look() -> None: ...

    agent = type("Looking", (Agent,), {"TOOLS": [double]})(tools=[look])
    agent.tools.clear()

    assert [each.name for each in agent.tools] == ["double", "look"]
    assert agent.resolve(ToolCall("a", "k", "look", "{}")).tool is agent.tools[1]
    assert [each.tool for each in agent.resolve([ToolCall("a", "k", "no", "{}")])] == [None]


def test_two_tools_of_one_name_are_refused() -> None:
    @tool(name="double")
    def again() -> None: ...

    with pytest.raises(SetupError, match=r"two tools are named 'double': .*double and .*again"):
        type("Doubling", (Agent,), {"TOOLS": [double]})(tools=[again])


def test_an_option_that_does_not_exist_is_refused() -> None:
    options: Any = {"max_turn": 3}

    with pytest.raises(SetupError, match="Agent has no option 'max_turn'; did you mean 'max_turns"):
        Agent(**options)


async def test_a_loop_that_forgets_to_yield_is_refused_when_it_is_run() -> None:
    class Forgetful(Agent):
        async def loop(self, context: Context) -> None:  # type: ignore[override]  # that is the point
            context.add("done")

    with pytest.raises(SetupError, match=r"Forgetful\.loop' gives a coroutine and no events"):
        await collect(Forgetful().run(messages="hi"))


async def test_usage_is_added_over_turns() -> None:
    script = scripted(in_turn([call("double", number=4)], "ok"))
    stream = Agent(model=script, tools=[double]).run(messages="hi")

    events = await collect(stream)

    one, two = (e.usage for e in events if isinstance(e, StreamEnd))
    assert one is not None
    assert two is not None
    assert stream.usage == one + two


class Verdict(BaseModel):
    is_good: bool


async def test_the_output_is_the_text_of_the_last_turn_read_as_its_type() -> None:
    script = in_turn(["wait", call("double", number=4)], '{"is_good": true}')
    agent = Agent(model=scripted(script), tools=[double])

    plain, typed = agent.run(messages="hi"), agent.run(messages="hi", output_type=Verdict)
    await collect(merge(plain, typed))

    assert plain.output == '{"is_good": true}'
    assert typed.output == Verdict(is_good=True)


async def test_text_that_does_not_fit_the_type_is_refused_when_it_is_read() -> None:
    stream = Agent(model=scripted("well")).run(messages="hi", output_type=Verdict)
    await collect(stream)

    with pytest.raises(ValidationError):
        _ = stream.output


async def test_a_loop_may_set_the_output() -> None:
    async def loop(context: Context) -> AsyncGenerator[object]:
        yield "text"
        context.output = {"score": 3}

    stream = AgentStream(loop, Context())
    await collect(stream)

    assert stream.output == {"score": 3}


async def test_a_tool_can_ask_whose_run_it_is_in() -> None:
    class Reader(Agent):
        """Another class."""

    class Writer(Agent):
        """An agent of a class of its own."""

    seen: list[object] = []

    @tool
    async def who() -> str:
        seen.append(current_agent(Writer))
        with pytest.raises(LookupError, match=r"Writer object at .*, not one of .* 'Reader'"):
            current_agent(Reader)
        return "ok"

    agent = Writer(model=scripted(in_turn([call("who")], "ok")), tools=[who])
    await collect(agent.run(messages="hi"))

    assert seen == [agent]
    with pytest.raises(LookupError, match="inside of a run only"):
        current_agent()


async def test_a_run_inside_of_a_tool_has_a_scope_of_its_own() -> None:
    inner = Agent(model=scripted("inner"))

    @tool
    async def ask_inner() -> Any:
        async with inner.run(messages="hi") as stream:
            await collect(stream)
        assert current_agent() is outer
        return stream.output

    outer = Agent(model=scripted(in_turn([call("ask_inner")], "outer")), tools=[ask_inner])
    events = await collect(outer.run(messages="hi"))

    assert [e.content for e in events if isinstance(e, ToolCallResult)] == ["inner"]


async def test_a_loop_may_ask_twice_at_once() -> None:
    class Twice(Agent):
        async def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
            async with ask(context=context) as one, ask(context=context) as two:
                async for event in merge(one, two):
                    yield event  # noqa: ASYNC119 - the run closes its loop

    events = await collect(Twice(model=scripted("hi")).run(messages="hi"))

    assert {event.turn for event in events} == {1, 2}
