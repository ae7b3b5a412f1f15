"""A queue's client, told what to do by lines of JSON; answers are lines of JSON.

A driver has `enqueue(count)`, `call()` (one job, awaited) and `fan(width)` (many at once, awaited),
each a function or a coroutine function; time is taken here, in the same way for all.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

URL = "BENCH_URL"
LIMIT = 60.0
BATCH = 100
"""How many jobs a client that awaits enqueues at a time."""
GAP = (0.002, 0.01)
"""Seconds between two calls, so that the queue is idle when the next one comes."""


class Driver(Protocol):
    """How a queue is used."""

    def open(self) -> Any: ...
    def enqueue(self, count: int) -> Any: ...
    def call(self) -> Any: ...
    def fan(self, width: int) -> Any: ...
    def close(self) -> Any: ...


def url() -> str:
    """Return where the server is."""
    return os.environ[URL]


async def settled(value: Any) -> Any:
    """Return what a function, or a coroutine function, gives."""
    if not inspect.isawaitable(value):
        return value
    async with asyncio.timeout(LIMIT):
        return await value


async def batches(count: int, one: Callable[[], Awaitable[Any]]) -> None:
    """Enqueue some jobs at a time."""
    for start in range(0, count, BATCH):
        await side_by_side(min(BATCH, count - start), one)


async def side_by_side(width: int, one: Callable[[], Awaitable[Any]]) -> None:
    """Await many calls together."""
    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(_awaited(one))


async def _awaited(one: Callable[[], Awaitable[Any]]) -> None:
    await one()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415  # environments differ
    except ImportError:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def serve(driver: Driver) -> None:
    """Do what the lines ask for, until there are no more."""
    await settled(driver.open())
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": True}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await _answer(driver, **json.loads(line))), flush=True)
    await settled(driver.close())


async def _answer(driver: Driver, *, ask: str, **details: Any) -> dict[str, Any]:
    if ask == "enqueue":
        began, cpu = time.perf_counter(), time.process_time()
        await settled(driver.enqueue(details["count"]))
        return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    if ask == "calls":
        return {"ms": await timed(driver.call, details["count"])}
    if ask == "fan":
        return {"ms": await timed(lambda: driver.fan(details["width"]), details["count"])}
    answer: dict[str, Any] = await settled(getattr(driver, ask)(**details))
    return answer


async def timed(one: Callable[[], Any], count: int) -> list[float]:
    """Return how long each time took, in ms; the first, which open connections, do not count."""
    took: list[float] = []
    for number in range(count + 3):
        await asyncio.sleep(random.uniform(*GAP))
        began = time.perf_counter()
        await settled(one())
        if number >= 3:
            took.append((time.perf_counter() - began) * 1000)
    return took
