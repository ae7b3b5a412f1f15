"""A run of the kit's loop, whose worker's N-th command has a fault, for every N.

It makes batches of calls and sums up between them. Whatever fails, it ends as without the fault,
and its session can be read and holds each message once.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from loops.kit import LLM
from loops.providers.scripted import scripted
from tests.faults import Fault, FaultyLink, Trap
from tests.kills.harness import plain_message, view_of
from tests.kills.kit import THREE, WINDOW, about, wanting
from tests.worker.driving import TENANT, Ended, Mill, milling
from worker.link import Link, open_link

MOST = 300
"""More commands than a run takes."""


@dataclass
class World:
    """What the agent's tools did, and the agent."""

    effects: Counter[str] = field(default_factory=Counter[str])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """What is about cem, in the batch after the summary, waits for it."""

    def note(self, name: str) -> Any:
        """Return the handler of a tool that does something once."""

        async def handler(inp: dict[str, Any]) -> dict[str, Any]:
            self.effects[f"{name} {inp['about']}"] += 1
            if inp["about"] == "cem":
                await self.gate.wait()
            return {name: inp["about"]}

        return handler

    def agent(self) -> LLM:
        """Return an agent that sums up between its batches of calls."""
        llm = LLM().model(scripted(wanting(THREE), delta=4_000)).context(WINDOW).max_tokens(200)
        tools = llm.tools([about("look_up"), about("send")])
        return tools.on("look_up", self.note("look_up")).on("send", self.note("send"))


async def told(mill: Mill, world: World, ended: Ended) -> dict[str, Any]:
    """Return what has to be the same with a fault as without."""
    names = mill.resources.keys.session(TENANT, ended.run.session_id)
    markers = await mill.link.command("LRANGE", f"{names.record}:markers", 0, -1)
    return {
        "status": ended.run.status,
        "output": ended.run.output,
        "attempt": ended.run.attempt,
        "history": [plain_message(message) for message in ended.history],
        "effects": world.effects,
        "view": sorted(view_of(ended.events)),
        "markers": markers,
        "kept": await mill.link.command("HGET", names.record, "kept"),
    }


async def through(link: Link, own: Link, trap: Trap) -> dict[str, Any]:
    """See a run through whose worker has a link with this trap; its tools have a good one."""
    world = World()
    world.gate.set()
    faulty = FaultyLink(own.client, Trap(0, trap.fault), own.blocking)
    try:
        async with milling(link, {"agent": world.agent()}, runs=None) as mill:
            await mill.worker("runs", link=faulty)
            faulty.trap = trap
            return await told(mill, world, await mill.through())
    finally:
        await faulty.aclose()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_run_ends_the_same_whichever_command_of_its_worker_has_a_fault(
    link: Link, redis_url: str, fault: Fault
) -> None:
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
    assert set(calm["effects"].values()) == {1}
    assert len(calm["effects"]) == 5
    assert len(calm["markers"]) == 1
    assert 20 < at < MOST - 1


async def test_a_run_that_is_resumed_after_its_summary_says_nothing_twice(link: Link) -> None:
    calm, world = World(), World()
    calm.gate.set()
    async with milling(link, {"calm": calm.agent(), "agent": world.agent()}) as mill:
        expected = await told(mill, calm, await mill.through("calm"))
        place = await mill.submit()
        await mill.until(place, lambda log: world.effects["send cem"] > 0)

        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        world.gate.set()
        ended = await mill.ended(place)
        resumed = await told(mill, world, ended)

    actions = [data["value"]["action"] for data in ended.of("custom.ui")]
    assert actions == ["compacted"]
    assert resumed == {**expected, "attempt": 2}
