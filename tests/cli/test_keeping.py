"""Processes that die are started again, as long as they had been ready."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest

from api.children import Child, Children
from api.keeping import Keeper, pause_after
from tests.waiting import wait_until

SERVES = "import time; print('loopmill thing ready: ', flush=True); time.sleep(60)"


class World:
    """A keeper with a clock that is set by hand, and what it said."""

    def __init__(self, children: Children) -> None:
        self.now = 100.0
        self.said: list[str] = []
        self.children = children
        self.keeper = Keeper(children, dict(os.environ), self.said.append, clock=lambda: self.now)

    @property
    def newest(self) -> Child:
        return self.children.members[-1]

    async def kill(self) -> int:
        victim = self.newest
        await wait_until(lambda: victim.was_ready, for_="the process to be ready")
        os.kill(victim.pid, signal.SIGKILL)
        victim.popen.wait()
        self.keeper.look()
        return victim.pid


@pytest.fixture
def world() -> Iterator[World]:
    with Children() as children:
        yield World(children)


async def test_who_was_ready_and_dies_is_started_again_after_a_pause(world: World) -> None:
    world.keeper.start("thing", ["-c", SERVES])
    pid = await world.kill()

    world.keeper.look()
    assert world.children.members == []
    world.now += 0.5
    world.keeper.look()

    assert world.newest.pid != pid
    assert world.said == [f"thing (pid {pid}) ended with SIGKILL; it is started again in 0.5 s"]


async def test_each_death_in_a_row_makes_the_pause_longer_and_a_long_life_ends_the_row(
    world: World,
) -> None:
    world.keeper.start("thing", ["-c", SERVES])
    for pause in (0.5, 1.0):
        await world.kill()
        world.now += pause
        world.keeper.look()
    world.now += 11
    world.keeper.look()
    await world.kill()

    assert [line.rpartition(" in ")[2] for line in world.said] == ["0.5 s", "1 s", "0.5 s"]


async def test_who_never_was_ready_is_shown_and_left_alone(world: World) -> None:
    world.keeper.start("thing", ["-c", "raise SystemExit('no such port')"])
    world.newest.popen.wait()

    world.keeper.look()
    world.now += 60
    world.keeper.look()

    assert world.children.members == []
    assert len(world.said) == 1
    assert "ended with code 1 before it was ready" in world.said[0]
    assert "no such port" in world.said[0]


def test_pauses_double_up_to_ten_seconds() -> None:
    pauses = [pause_after(deaths) for deaths in (1, 2, 3, 4, 5, 6, 1000)]

    assert pauses == [timedelta(seconds=each) for each in (0.5, 1, 2, 4, 8, 10, 10)]
