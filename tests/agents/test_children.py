"""Child runs are the same to their loop in one process as on workers."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.budget import Spent
from loops.errors import BudgetExceeded, ChildFailed, UnknownLoop
from loops.events import AgentEvent, ChildFinished, ChildStarted, Custom, RunFailed
from loops.tasks import Owner
from loops.testing import call, in_turn, scripted, text
from tests.agents.runtimes import Outcome, Through


@ai.tool
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


class Asks(ai.Agent):
    """A loop that asks other agents, side by side, and says what came of them."""

    def __init__(self, *asked: object, **options: Any) -> None:
        super().__init__(**options)
        self.asked = asked

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        owner = Owner()
        runs = [
            owner.start(context.run_agent(agent, f"ask {at}"), name=f"child {at}")
            for at, agent in enumerate(self.asked)
        ]
        for run in runs:
            try:
                child = await run
                yield Custom("child", [child.output, child.spent.turns])
            except (ChildFailed, UnknownLoop, BudgetExceeded) as error:
                yield Custom("failed", str(error))


def poet(*turns: Any, **options: Any) -> ai.Agent:
    return ai.Agent(model=scripted(in_turn(*turns)), tools=[look], **options)


def told(ended: Outcome) -> list[Any]:
    return [each.value for each in ended.of(Custom)]


async def test_a_loop_gets_what_another_agent_says(through: Through) -> None:
    others = {"poet": poet([call("look", at="sea")], [text("a poem")])}
    ended = await through(Asks("poet"), others=others)

    assert told(ended) == [["a poem", 2]]
    assert [each.agent for each in ended.of(ChildStarted)] == ["poet"]
    assert [(each.agent, each.status) for each in ended.of(ChildFinished)] == [
        ("poet", "completed")
    ]


async def test_several_run_side_by_side_also_when_they_are_asked_the_same(
    through: Through,
) -> None:
    others = {"poet": poet("a poem"), "critic": poet("bad")}
    ended = await through(Asks("poet", "critic", "poet"), others=others)

    assert told(ended) == [["a poem", 1], ["bad", 1], ["a poem", 1]]
    assert len(ended.of(ChildFinished)) == 3


async def test_an_agent_may_be_given_itself(through: Through) -> None:
    writer = poet("a poem")
    ended = await through(Asks(writer), others={"poet": writer})

    assert told(ended) == [["a poem", 1]]


async def test_a_child_that_fails_is_raised_where_it_is_awaited(through: Through) -> None:
    others = {"poet": poet(ValueError("no ink"))}
    ended = await through(Asks("poet", "nobody"), others=others)

    failed, unknown = told(ended)
    assert "of 'poet' did not complete: " in failed
    assert "no ink" in failed
    assert "no agent is named 'nobody'" in unknown


class Trusts(ai.Agent):
    """A loop that does not reckon with a child's failure."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        yield Custom("child", (await context.run_agent("poet", "write")).output)


async def test_a_run_that_does_not_reckon_with_it_fails_with_it(through_workers: Through) -> None:
    ended = await through_workers(Trusts(), others={"poet": poet(ValueError("no ink"))})

    (failed,) = ended.of(RunFailed)
    assert failed.code == "child_failed"


async def test_children_take_of_the_budget_of_their_parent(through: Through) -> None:
    class Spends(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            for _ in range(3):
                try:
                    child = await context.run_agent("poet", "write")
                    yield Custom("turns", child.spent.turns)
                except (ChildFailed, BudgetExceeded) as error:
                    yield Custom("refused", type(error).__name__)

    others = {"poet": poet([call("look", at="sea")], "a poem")}
    ended = await through(Spends(budget=ai.Budget(turns=3)), others=others)

    # The second has one turn left of the three, the third none.
    assert told(ended) == [2, "ChildFailed", "BudgetExceeded"]


class Deep(ai.Agent):
    """A loop that asks itself."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        try:
            deeper = int((await context.run_agent("deep", "deeper")).output)
            context.output = str(deeper + 1)
        except ChildFailed as error:
            context.output = "0" if "16 deep at most" in str(error) else str(error)
        yield Custom("depth", context.output)


async def test_runs_do_not_nest_for_ever(through: Through) -> None:
    ended = await through(Deep(), others={"deep": Deep()})

    assert ended.output == "16"


async def test_what_a_loop_sets_as_its_output_is_given_as_json(through: Through) -> None:
    class Counts(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            context.output = {"count": 3}
            yield Custom("counted", 3)

    ended = await through(Asks("counts"), others={"counts": Counts()})

    assert told(ended) == [['{"count":3}', 0]]


async def test_outside_of_an_app_agents_have_no_names() -> None:
    async with Asks("poet", poet("a poem")).run(messages="go") as stream:
        events = [event async for event in stream]

    unknown, child = [event.value for event in events if isinstance(event, Custom)]
    assert "no agent is named 'poet'" in unknown
    assert child == ["a poem", 1]


async def test_a_child_that_takes_too_long_is_ended() -> None:
    class Hurried(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            soon = timedelta(milliseconds=10)
            with pytest.raises(ChildFailed, match="timed_out"):
                await context.run_agent(Sleeps(), "sleep", timeout=soon)
            yield Custom("done")

    class Sleeps(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            await context.sleep(60)
            yield Custom("slept")

    async with Hurried().run(messages="go") as stream:
        assert [event.name async for event in stream if isinstance(event, Custom)] == ["done"]


async def test_a_child_ends_with_the_run_that_started_it() -> None:
    ended: list[str] = []

    class Endless(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            try:
                await context.sleep(60)
                yield Custom("slept")
            finally:
                ended.append("child")

    class Leaves(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            Owner().start(context.run_agent(Endless(), "sleep"), name="child")
            await context.sleep(0.01)
            yield Custom("done")

    async with Leaves().run(messages="go") as stream:
        assert [event.name async for event in stream if isinstance(event, Custom)] == ["done"]

    assert ended == ["child"]


def test_what_is_left_of_a_budget_is_never_more_than_it_was() -> None:
    budget = ai.Budget(usd=0.5, seconds=0.25, turns=3)
    left = budget.less(Spent(usd=0.2, seconds=0.05, turns=1))

    assert left == ai.Budget(usd=0.3, seconds=0.2, turns=2)


async def test_an_agent_inside_of_a_tool_knows_the_agents_of_the_app(through: Through) -> None:
    @ai.tool
    async def ask() -> str:
        """Ask the poet."""
        async with Asks("poet").run(messages="inside") as stream:
            return str([event.value async for event in stream if isinstance(event, Custom)])

    agent = ai.Agent(model=scripted(in_turn([call("ask")], "done")), tools=[ask])
    ended = await through(agent, others={"poet": poet("a poem")})

    assert ended.results == [("[['a poem', 1]]", False)]


async def test_an_agent_inside_of_a_tool_ends_with_the_tool() -> None:
    ended: list[str] = []

    class Endless(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            try:
                yield Custom("began")
                await context.sleep(60)
            finally:
                ended.append("inner")

    @ai.tool(timeout=timedelta(milliseconds=50))
    async def ask() -> AsyncGenerator[AgentEvent]:
        """Ask an agent, without a block that would close it."""
        async for event in Endless().run(messages="inside"):
            yield event

    agent = ai.Agent(model=scripted(in_turn([call("ask")], "done")), tools=[ask])
    async with agent.run(messages="go") as stream:
        async for _ in stream:
            pass

    assert ended == ["inner"]
    assert stream.output == "done"
