"""How far a loop on a worker may be ahead of its log."""

from collections.abc import AsyncGenerator

import pytest

import loops as ai
from loops.events import AgentEvent, Custom
from tests.worker.driving import Mill, milling
from worker.calls import RunPlace
from worker.link import Link

YIELDS = 6


class Ahead(ai.Agent):
    """A loop that looks, after each yield, how many of its events stand in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.mill: Mill
        self.ahead: list[int] = []

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        place = RunPlace(self.mill.resources.keys, "acme", context.run)
        for number in range(1, YIELDS + 1):
            yield Custom("counted", number)
            log = await self.mill.log(place)
            told = [event for event in log if event.type == "custom.counted"]
            self.ahead.append(number - len(told))


class Lockstep(Ahead):
    """A loop whose yields return when they stand in the log."""

    LOOP_BUFFER = 0


class Near(Ahead):
    """A loop that is two yields ahead at most."""

    LOOP_BUFFER = 2


@pytest.mark.parametrize(("kind", "most"), [(Lockstep, 0), (Near, 2)])
async def test_a_loop_is_ahead_of_its_log_by_its_buffer(link: Link, kind: type[Ahead], most: int):
    agent = kind()
    async with milling(link, {"agent": agent}) as mill:
        agent.mill = mill
        ended = await mill.through()

    assert len(agent.ahead) == YIELDS
    assert max(agent.ahead) <= most
    assert ended.types.count("custom.counted") == YIELDS
