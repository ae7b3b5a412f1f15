"""Loops that decide otherwise than the default one, on both runtimes."""

from collections.abc import AsyncGenerator
from typing import Any

import loops as ai
from loops.errors import ProviderError, Unauthorized
from loops.events import AgentEvent, Custom, StreamStart, TextDelta, ToolCallResult, ToolEnd
from loops.messages import tool_message
from loops.testing import call, in_turn, scripted, text
from tests.agents.runtimes import Outcome, Through

Events = AsyncGenerator[AgentEvent]


@ai.tool
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def model(*answers: Any, name: str = "scripted") -> Any:
    return scripted(in_turn(*answers), name=name)


ONE_CALL = ([text("let me see"), call("look", at="sea")], text("done"))


def said(ended: Outcome) -> str:
    return "".join(each.text for each in ended.of(TextDelta))


async def reply(context: ai.Context) -> ai.Stream:
    """Read a reply to its end, and show nothing of it."""
    async with ai.stream(context=context) as stream:
        async for _ in stream:
            pass
    return stream


async def test_a_loop_may_keep_to_itself_what_it_streams(through: Through) -> None:
    class Silent(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            context.add((await reply(context)).message)
            yield Custom("read")

    ended = await through(Silent(model=model("a secret")))

    assert said(ended) == ""
    assert [each.name for each in ended.of(Custom)] == ["read"]
    assert ended.history[-1]["content"][0]["text"] == "a secret"


async def test_a_loop_may_add_nothing(through: Through) -> None:
    class Forgetful(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            async for event in ai.stream(context=context):
                yield event

    ended = await through(Forgetful(model=model("well")))

    assert said(ended) == "well"
    assert ended.output == "well"
    assert ended.roles == ["user"]


async def test_a_loop_may_yield_events_of_its_own(through: Through) -> None:
    class Talkative(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            yield Custom("began", {"with": context.last_message})
            async for event in super().loop(context):
                yield event
                if isinstance(event, ToolCallResult):
                    yield Custom("found", event.content)

    ended = await through(Talkative(model=model(*ONE_CALL), tools=[look]))

    assert [each.value for each in ended.of(Custom)] == [{"with": "go"}, "saw sea"]
    assert ended.output == "done"


async def test_a_loop_may_route_between_two_models(through: Through) -> None:
    small, large = model("small", name="small"), model("large", name="large")

    class Router(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            context.model = large if len(context.last_message) > 10 else small
            async for event in super().loop(context):
                yield event

    assert (await through(Router(), "short")).output == "small"
    ended = await through(Router(), "a question that is long")

    assert ended.output == "large"
    assert [each.model for each in ended.of(StreamStart)] == ["large"]


async def test_a_loop_may_plan_first_and_then_act(through: Through) -> None:
    planner = model("look at the sea", name="planner")

    class Planner(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            async with ai.stream(planner, context.messages, system="plan") as plan:
                async for _ in plan:
                    pass
            yield Custom("plan", plan.text)
            context.add(f"the plan: {plan.text}")
            async for event in super().loop(context):
                yield event

    ended = await through(Planner(model=model(*ONE_CALL), tools=[look]))

    assert [each.value for each in ended.of(Custom)] == ["look at the sea"]
    assert ended.output == "done"
    assert ended.history[1]["content"] == "the plan: look at the sea"


async def test_a_loop_may_open_two_streams_at_once(through: Through) -> None:
    class Double(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            streams = [
                ai.stream(model(word, name=word), [{"role": "user", "content": word}])
                for word in ("yes", "no")
            ]
            async for event in ai.util.merge(*streams):
                yield event
            context.output = " ".join(stream.text for stream in streams)

    ended = await through(Double())

    assert ended.output == "yes no"
    assert {each.model for each in ended.of(StreamStart)} == {"yes", "no"}


async def test_a_loop_may_ask_another_model_when_one_fails(through: Through) -> None:
    class Careful(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            try:
                context.add((await reply(context)).message)
            except ProviderError as error:
                yield Custom("failed", type(error).__name__)
                context.model = model("from the other")
                async for event in super().loop(context):
                    yield event

    ended = await through(Careful(model=model(Unauthorized("no key"))))

    assert [each.value for each in ended.of(Custom)] == ["Unauthorized"]
    assert ended.output == "from the other"


async def test_a_loop_may_call_a_tool_without_a_runner(through: Through) -> None:
    class Direct(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            stream = await reply(context)
            context.add(stream.message)
            for wish in stream.tool_calls:
                finished = await self.resolve(wish)()
                yield finished
                context.add(ai.Messages([message_of(finished)]))
            async for event in super().loop(context):
                yield event

    ended = await through(Direct(model=model(*ONE_CALL), tools=[look]))

    assert ended.results == [("saw sea", False)]
    assert ended.output == "done"


def message_of(finished: ToolCallResult) -> ai.Message:
    message = tool_message([finished.result])
    assert message is not None
    return message


async def test_a_loop_may_schedule_whatever_answers_like_a_call(through: Through) -> None:
    class Closing(ai.Agent):
        async def loop(self, context: ai.Context) -> Events:
            while context.keep_running():
                stream = ai.stream(context=context)
                async with ai.ToolRunner() as runner:
                    async for event in ai.util.merge(stream, runner.events()):
                        yield event  # noqa: ASYNC119 - the run closes its loop
                        if isinstance(event, ToolEnd):
                            runner.schedule(shouted(self.resolve(event.tool_call)))
                context.add(stream.message)
                context.add(runner.get_tool_message())

    ended = await through(Closing(model=model(*ONE_CALL), tools=[look]))

    assert ended.results == [("SAW SEA", False)]
    assert ended.output == "done"


def shouted(bound: ai.BoundToolCall) -> Any:
    async def answer() -> ai.ToolResult:
        result = (await bound()).result
        return ai.ToolResult(result.call, result.id, result.name, result.content.upper())

    return answer


async def test_a_class_of_a_class_decides_with_what_it_inherits(through: Through) -> None:
    class Base(ai.Agent):
        TOOLS = (look,)

        async def loop(self, context: ai.Context) -> Events:
            yield Custom("base")
            async for event in super().loop(context):
                yield event

    class Derived(Base):
        async def loop(self, context: ai.Context) -> Events:
            yield Custom("derived")
            async for event in super().loop(context):
                yield event

    ended = await through(Derived(model=model(*ONE_CALL)))

    assert [each.name for each in ended.of(Custom)] == ["derived", "base"]
    assert ended.results == [("saw sea", False)]
