"""Whole runs of agents, whose tools are called by models of other people's servers."""

from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from tests.peers.providers.routes import ROUTES, TOLD_TO_WAIT, Peer, on
from tests.worker.driving import milling
from worker.link import Link

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

POPULATION = {"Lima": 10_400_000, "Oslo": 717_000}


@ai.tool(read_only=True)
async def population(city: str) -> int:
    """Say how many people live in a city."""
    return POPULATION[city]


@pytest.fixture
def app(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> ai.App:
    """Agents that name their models, in an environment that says where those are."""
    for name, value in peer.environment.items():
        monkeypatch.setenv(name, value)
    return ai.App(
        {
            model: ai.Agent(model=peer.named(model), system="You know cities.", tools=[population])
            for model in ("parallel", "one-after-the-other")
        }
    )


@on(*ROUTES)
async def test_calls_side_by_side_are_answered_in_one_turn(peer: Peer, app: ai.App) -> None:
    outcome = await app.run("parallel", "Lima and Oslo together?")

    asked = (await peer.asked())[-1].body
    assert outcome.output == "11,117,000 people."
    assert [asked.count(each) for each in ("10400000", "717000", "You know cities.")] == [1, 1, 1]


@on(*ROUTES)
async def test_a_tool_that_fails_is_told_to_the_model_which_calls_another(
    peer: Peer, app: ai.App
) -> None:
    outcome = await app.run("one-after-the-other", "Atlantis? Oslo?")

    results: list[Any] = [
        block["content"]
        for message in outcome.messages.raw
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    assert outcome.output == "717,000 people."
    assert results == ["KeyError: 'Atlantis'", "717000"]


@on(*TOLD_TO_WAIT)
async def test_a_run_on_workers_asks_again_after_the_pause_and_comes_to_its_end(
    peer: Peer, app: ai.App, link: Link
) -> None:
    await peer.refuse_next()
    async with milling(link, app.agents) as mill:
        ended = await mill.through("parallel", "Lima and Oslo together?")

    assert ended.run.output == "11,117,000 people."
    assert sorted(ended.results) == ["10400000", "717000"]
    asked = (await peer.asked())[-3:]
    assert [each.status for each in asked] == [429, 200, 200]
    assert asked[1].at - asked[0].at >= timedelta(milliseconds=990)  # clocks round
