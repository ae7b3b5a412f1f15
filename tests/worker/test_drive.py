"""Runs from their acceptance to their end, on workers in this process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted, text
from tests.worker.driving import milling
from worker.link import Link
from worker.run_record import RunStatus


@ai.tool(idempotent=True)
async def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@ai.tool
def mail(to: str) -> dict[str, Any]:
    """Send a letter."""
    return {"sent": to}


@ai.tool
async def breaks() -> str:
    """Break."""
    raise ValueError("it broke")


def agent(*answers: Any, tools: Any = (weather, mail, breaks), **how: Any) -> ai.Agent:
    return ai.Agent(model=scripted(in_turn(*answers), **how), tools=tools)


async def test_a_run_without_tools_ends_with_its_text(link: Link):
    async with milling(link, {"agent": agent("the answer is 42")}) as mill:
        ended = await mill.through()

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "the answer is 42")
    assert ended.types[:3] == ["run.queued", "run.started", "turn.started"]
    assert ended.types[-2:] == ["turn.finished", "run.completed"]
    assert "".join(data["text"] for data in ended.of("text.delta")) == "the answer is 42"
    assert [message["role"] for message in ended.history] == ["user", "assistant"]
    assert ended.run.attempt == 1
    assert ended.events[-1].data["output_length"] == len("the answer is 42")


async def test_the_calls_of_a_turn_become_jobs_and_their_results_reach_the_model(link: Link):
    turn = [text("let me see"), call("weather", city="Rome"), call("mail", to="bob")]
    async with milling(link, {"agent": agent(turn, "done")}) as mill:
        ended = await mill.through()

    assert ended.run.output == "done"
    for kind in ("tool.queued", "tool.started", "tool.finished"):
        assert len(ended.of(kind)) == 2
    assert sorted(ended.results) == ["sunny in Rome", '{"sent":"bob"}']
    roles = [message["role"] for message in ended.history]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert {data["pid"] for data in ended.of("tool.started")} != {None}


async def test_the_runs_usage_is_that_of_all_its_turns(link: Link):
    async with milling(link, {"agent": agent([call("mail", to="x")], "done")}) as mill:
        ended = await mill.through()

    turns = [data["usage"]["output_tokens"] for data in ended.of("turn.finished")]
    assert ended.run.usage is not None
    assert ended.run.usage["output_tokens"] == sum(turns)
    assert ended.events[-1].data["usage"] == ended.run.usage


async def test_a_tool_that_raises_is_an_error_result_and_the_run_goes_on(link: Link):
    async with milling(link, {"agent": agent([call("breaks")], "done")}) as mill:
        ended = await mill.through()

    assert ended.run.status == RunStatus.COMPLETED
    [finished] = ended.of("tool.finished")
    assert (finished["is_error"], finished["content"]) == (True, "ValueError: it broke")
    assert ended.results == ["ValueError: it broke"]


async def test_an_unknown_tool_is_an_error_result_and_becomes_no_job(link: Link):
    async with milling(link, {"agent": agent([call("nope", x=1)], "done")}) as mill:
        ended = await mill.through()

    assert ended.run.status == RunStatus.COMPLETED
    assert ended.of("tool.queued") == []
    [finished] = ended.of("tool.finished")
    assert finished["is_error"]
    assert "there is no tool named 'nope'" in finished["content"]


async def test_what_a_streaming_tool_yields_is_told_whole_and_in_order(link: Link):
    @ai.tool
    async def count(to: int) -> AsyncIterator[int]:
        """Count."""
        for number in range(to):
            yield number
            await asyncio.sleep(0)

    async with milling(
        link, {"agent": agent([call("count", to=30)], "done", tools=[count])}
    ) as mill:
        ended = await mill.through()

    assert [data["value"] for data in ended.of("tool.progress")] == list(range(30))
    assert ended.results == ["29"]
    last = max(n for n, kind in enumerate(ended.types) if kind == "tool.progress")
    assert last < ended.types.index("tool.finished")


async def test_a_session_goes_on_where_the_run_before_left_it(link: Link):
    seen: list[list[Any]] = []

    def reply(history: list[Any]) -> str:
        seen.append(history)
        return f"answer {len(seen)}"

    async with milling(link, {"agent": ai.Agent(model=scripted(reply))}) as mill:
        first = await mill.through(said="one", session_id="s")
        second = await mill.through(said="two", session_id="s")

    assert [message["role"] for message in seen[1]] == ["user", "assistant", "user"]
    assert seen[1][0]["content"] == "one"
    assert seen[1][1]["content"][0]["text"] == "answer 1"
    assert (first.run.ordinal, second.run.ordinal) == (1, 2)
    assert len(second.history) == 4
    assert second.run.output == "answer 2"


async def test_runs_of_one_session_run_one_after_the_other_in_their_order(link: Link):
    now: list[str] = []
    order: list[str] = []

    async def reply(history: list[Any]) -> str:
        said = history[-1]["content"]
        assert now == [], f"{said} runs while {now} does"
        now.append(said)
        await asyncio.sleep(0.01)
        now.remove(said)
        order.append(said)
        return f"re: {said}"

    async with milling(link, {"agent": ai.Agent(model=scripted(reply))}) as mill:
        places = [await mill.submit(said=str(n), session_id="s") for n in range(5)]
        ended = [await mill.ended(place) for place in places]

    assert order == ["0", "1", "2", "3", "4"]
    assert [one.run.output for one in ended] == [f"re: {n}" for n in range(5)]
    assert len(ended[-1].history) == 10


@pytest.mark.parametrize("kind", ["event", "dict", "string", "output"])
async def test_a_bare_loop_publishes_what_it_yields(link: Link, kind: str):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        match kind:
            case "event":
                yield ai.events.TextDelta(0, "hi")
            case "dict":
                yield {"type": "text", "text": "hi"}
            case "string":
                yield "hi"
            case _:
                context.output = {"said": "hi"}
                yield {"type": "note", "x": 1}

    async with milling(link, {"agent": loop}) as mill:
        ended = await mill.through()

    assert ended.run.status == RunStatus.COMPLETED
    assert ended.run.output == ('{"said":"hi"}' if kind == "output" else "hi")
    assert ended.types[2] == ("custom.note" if kind == "output" else "text.delta")


async def test_a_loop_that_yields_without_a_pause_loses_nothing(link: Link):
    count = 70_000

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        for number in range(count):
            yield ai.events.Custom("n", number)

    async with milling(link, {"agent": loop}, log_events=10 * count, log_bytes="1GB") as mill:
        ended = await mill.through()

    assert [data["value"] for data in ended.of("custom.n")] == list(range(count))


async def test_a_loop_that_raises_fails_its_run_with_what_it_said_before(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        yield "half an "
        raise KeyError("answer")

    async with milling(link, {"agent": loop}) as mill:
        ended = await mill.through()

    assert (ended.run.status, ended.run.output) == (RunStatus.FAILED, "half an ")
    assert ended.run.error is not None
    assert ended.run.error.code == "loop_failed"
    assert "KeyError: 'answer'" in ended.run.error.message
    assert ended.events[-1].data["code"] == "loop_failed"


async def test_a_value_that_is_no_event_fails_the_run_and_names_itself(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        yield 42

    async with milling(link, {"agent": loop}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert ended.run.error.code == "bad_yield"
    assert "42" in ended.run.error.message


async def test_an_agent_that_takes_too_many_turns_is_stopped(link: Link):
    model = scripted(lambda _: [call("mail", to="x")])
    endless = ai.Agent(model=model, tools=[mail], max_turns=2)
    async with milling(link, {"agent": endless}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert ended.run.error.code == "turn_limit_exceeded"
    assert len(ended.of("turn.started")) == 2


async def test_a_run_that_comes_too_late_expires_unstarted(link: Link):
    async with milling(link, {"agent": agent("hi")}, runs=None) as mill:
        place = await mill.submit()
        await link.command("HSET", place.record, "start_by", 1)
        await mill.worker("runs")
        ended = await mill.ended(place)

    assert (ended.run.status, ended.run.attempt) == (RunStatus.EXPIRED, 0)
    assert ended.types == ["run.queued", "run.expired"]
    assert ended.history == []
