"""One run, whose worker's N-th command has a fault, for every N: it ends as without the fault."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

import loops as ai
from loops.providers.scripted import call, in_turn, scripted, text
from tests.faults import Fault, FaultyLink, Trap
from tests.kills.harness import plain_message, view_of
from tests.worker.driving import Ended, milling
from tests.worker.passes import TENANT, USER, Hands
from worker.link import Link, open_link
from worker.runs import NewRun

MOST = 200
"""More commands than a run takes."""


@dataclass
class World:
    """The agent of the test, and what its tools did."""

    effects: Counter[str]
    agent: ai.Agent


def new_world() -> World:
    effects: Counter[str] = Counter()

    @ai.tool
    async def send(to: str) -> str:
        """Send a letter: this must not happen twice."""
        effects[f"send {to}"] += 1
        return f"sent to {to}"

    @ai.tool(read_only=True)
    async def look(at: str) -> str:
        """Look at something."""
        effects[f"look {at}"] += 1
        return f"saw {at}"

    batch = [text("let me see"), call("send", to="ann"), call("look", at="the sea")]
    model = scripted(in_turn(batch, "that is all"))
    return World(effects, ai.Agent(model=model, tools=[send, look]))


def told(ended: Ended, world: World) -> dict[str, Any]:
    """Return what has to be the same with a fault as without."""
    return {
        "status": ended.run.status,
        "output": ended.run.output,
        "attempt": ended.run.attempt,
        "history": [plain_message(message) for message in ended.history],
        "effects": world.effects,
        "view": sorted(view_of(ended.events)),
    }


async def through(link: Link, own: Link, trap: Trap) -> dict[str, Any]:
    """See a run through whose worker has a link with this trap; its tools have a good one."""
    world = new_world()
    faulty = FaultyLink(own.client, Trap(0, trap.fault), own.blocking)
    try:
        async with milling(link, {"agent": world.agent}, runs=None) as mill:
            await mill.worker("runs", link=faulty)
            faulty.trap = trap
            return told(await mill.through(), world)
    finally:
        await faulty.aclose()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DELAYED])
async def test_a_run_ends_the_same_whichever_command_of_its_worker_has_a_fault(
    link: Link, redis_url: str, fault: Fault
):
    differences: dict[int, Any] = {}
    async with open_link(redis_url) as own:
        calm = await through(link, own, Trap(0, fault))
        for at in range(1, MOST):
            trap = Trap(at, fault)
            ended = await through(link, own, trap)
            if ended != calm:
                differences[at] = {k: v for k, v in ended.items() if calm[k] != v}
            if not trap.has_sprung:
                break

    assert differences == {}
    assert calm["effects"] == Counter(["send ann", "look the sea"])
    assert 10 < at < MOST - 1


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.CANCELLED])
async def test_a_run_that_is_asked_for_again_because_nobody_answered_is_made_once(
    link: Link, fault: Fault
):
    new = NewRun("agent", [USER], idempotency=("key", "body"))
    for at in (1, 2, 3):
        await link.command("FLUSHALL")
        faulty = FaultyLink(link.client, Trap(at, fault))
        asked = Hands(faulty).resources.runs.create(TENANT, new)
        with suppress(RedisConnectionError, asyncio.CancelledError):
            await asked
        await faulty.aclose()

        created = await Hands(link).resources.runs.create(TENANT, new)

        page = await Hands(link).resources.runs.page(TENANT)
        assert [run.id for run in page.runs] == [created.run_id]
        assert await Hands(link).resources.queue.depth("runs") == 1
