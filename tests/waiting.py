"""Waiting in tests: for a condition, with a limit, never for a time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

PAUSE = 0.005
WITHIN = timedelta(seconds=15)


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]], within: timedelta = WITHIN, for_: str = ""
) -> None:
    """Return as soon as the condition holds; fail with what was waited for when it does not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within.total_seconds()
    while True:
        holds = condition()
        if await holds if isinstance(holds, Awaitable) else holds:
            return
        if loop.time() > deadline:
            raise AssertionError(
                f"waited {within.total_seconds():g} s in vain for {for_ or condition}"
            )
        await asyncio.sleep(PAUSE)
