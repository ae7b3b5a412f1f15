"""The kit's loops give the same in one process and on workers."""

from typing import Any

from loops.events import Custom
from loops.kit import LLM, Session, build_tools, events, make_provider
from loops.providers.scripted import call, in_turn, scripted, text
from tests.agents.runtimes import Through
from tests.kit.weather import WEATHER, forecaster


def custom(outcome: Any, name: str) -> list[dict[str, Any]]:
    return [each.value for each in outcome.of(Custom) if each.name == name]


async def test_a_call_is_answered_and_the_model_asked_again(through: Through) -> None:
    llm = forecaster(in_turn([text("Let me see. "), call("weather", city="Rome")], "Sunny."))

    outcome = await through(llm, "How is it?")

    assert outcome.output == "Sunny."
    assert outcome.roles == ["user", "assistant", "user", "assistant"]
    assert outcome.history[2]["content"][0]["content"] == "sunny in Rome"


async def test_a_step_is_announced_by_name_once(through: Through) -> None:
    llm = forecaster(in_turn([call("weather", city="Rome")], "Sunny."))

    outcome = await through(llm, "How is it?")

    named = [each["tool_name"] for each in custom(outcome, "step") if "tool_name" in each]
    assert named == ["weather"]
    assert [each["step"] for each in custom(outcome, "step")] == ["", "Looking"]


async def test_a_loop_of_ones_own_keeps_its_answer(through: Through) -> None:
    async def own(*, context: Any, system: str = "", model: Any = None, **kw: Any) -> Any:
        provider = make_provider(model)
        session = await Session.open(context)
        await session.add_user(context.messages.raw[-1].get("content", ""))
        offered = build_tools((), [WEATHER])
        async for event in provider.stream(
            messages=session.context(), system=system, tools=offered, max_tokens=100
        ):
            yield event
        await session.checkpoint()

    outcome = await through(LLM().model(scripted("Hello.")).loop(own), "Hi")

    assert outcome.output == "Hello."
    assert outcome.roles == ["user", "assistant"]


async def test_a_tool_that_fails_is_told_to_the_model(through: Through) -> None:
    def broken(inp: dict[str, Any]) -> str:
        raise ValueError("storm")

    llm = forecaster(in_turn([call("weather", city="Rome")], "Sorry.")).on("weather", broken)

    outcome = await through(llm, "How is it?")

    (result,) = outcome.history[2]["content"]
    assert result["is_error"]
    assert result["content"] == "Error: ValueError: storm"


async def test_events_of_ones_own_go_through(through: Through) -> None:
    inner = forecaster("Fine.")

    async def around(context: Any) -> Any:
        yield {"type": "status", "status": "Working"}
        async for event in inner.run(context=context):
            yield event
        yield events.callout("done", "success")

    outcome = await through(around, "How is it?")

    assert [each.name for each in outcome.of(Custom)] == ["status", "callout"]
    assert outcome.output == "Fine."
