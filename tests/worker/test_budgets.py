"""Budgets of runs on workers: the request's and the agent's, the same again in a resumed run."""

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted
from tests.worker.driving import milling
from tests.worker.worlds import World, resumed
from worker.link import Link
from worker.run_record import RunStatus


def agent(world: World, **options: ai.Budget) -> ai.Agent:
    turns = [[call("look", at=f"{number}")] for number in range(4)]
    model = scripted(in_turn(*turns, [call("wait", what="gate")], "done"))
    return ai.Agent(model=model, tools=world.tools, **options)


@pytest.mark.parametrize("agents", [None, ai.Budget(turns=9)])
async def test_a_request_may_limit_its_run(link: Link, agents: ai.Budget | None):
    async with milling(link, {"agent": agent(World(), budget=agents)}) as mill:
        ended = await mill.through(budget={"turns": 3})

    assert ended.run.status == RunStatus.FAILED
    assert ended.run.error is not None
    assert ended.run.error.code == "budget_exceeded"
    assert ended.of("run.warning") == [{"budget": "turns", "limit": 3}]
    assert ended.types.count("turn.started") == 3


async def test_a_resumed_run_has_used_what_it_has_used_and_is_not_warned_again(link: Link):
    world = World()
    async with milling(link, {"agent": agent(world, budget=ai.Budget(turns=6))}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started", count=5)
        ended = await resumed(mill, place, world)

    assert ended.run.output == "done"
    assert len(ended.of("run.warning")) == 1
