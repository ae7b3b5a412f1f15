"""Agents for tests of durable runs: what their tools did, and when they may go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import loops as ai
from tests.worker.driving import Ended, Mill
from worker.calls import RunPlace


class World:
    """What tools do, and when they may."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.done: list[str] = []

        @ai.tool
        async def send(to: str) -> str:
            """Send a letter."""
            self.done.append(to)
            return f"sent to {to}"

        @ai.tool(read_only=True)
        async def look(at: str) -> str:
            """Look at something."""
            self.done.append(at)
            return f"saw {at}"

        @ai.tool
        async def wait(what: str = "") -> str:
            """Wait until the gate is open."""
            await self.open.wait()
            self.done.append(what)
            return f"waited for {what}"

        self.tools = [send, look, wait]


class Loop(ai.Agent):
    """An agent with a loop of its own and the tools of the world."""

    def __init__(self, loop: Any, world: World) -> None:
        super().__init__(tools=world.tools)
        self._loop = loop

    async def loop(self, context: ai.Context) -> AsyncIterator[Any]:
        async for event in self._loop(context):
            yield event


async def resumed(mill: Mill, place: RunPlace, world: World) -> Ended:
    """Let the worker of the run die once it waits for its gate, then open the gate."""
    await mill.lapse_run(place)
    await mill.until(place, "run.retrying")
    world.open.set()
    return await mill.ended(place)
