"""Callbacks' methods, called within a limit of time: nobody waits for one that does not end."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from loops.guard import Raised, outcome_of

T = TypeVar("T")


async def outcome_within(limit: timedelta, method: Callable[[], Awaitable[T]]) -> T | Raised:
    """Return what the method gives or raises: `TimeoutError` if it takes longer than the limit."""
    return await outcome_of(partial(_timed, limit, method))


async def _timed(limit: timedelta, method: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(limit.total_seconds()):
        return await method()
