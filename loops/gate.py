"""How many calls of a tool are performed at the same time in this process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from .tools import Tool

_Gates = dict[tuple[str, int], asyncio.Semaphore]

_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gates] = WeakKeyDictionary()
"""A semaphore belongs to the event loop that waits for it."""


@asynccontextmanager
async def within_concurrency(tool: Tool) -> AsyncGenerator[None]:
    """Wait until the tool may be called once more, and let the block be one of its calls.

    Tools of one name count as one, as they do on workers.
    """
    if tool.concurrency is None:
        yield
        return
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    place = (tool.name, tool.concurrency)
    gate = gates.setdefault(place, asyncio.Semaphore(tool.concurrency))
    async with gate:
        yield
