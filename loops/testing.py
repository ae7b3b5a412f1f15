"""All that a loop's author needs to test it: a scripted model, waiting, reading a run to its end.

The model lives in `loops.providers.scripted`; its words are here as well, for tests to import all
from one place.
"""

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from .providers.scripted import call, call_with, in_turn, scripted, text, thinking, until

__all__ = [
    "call",
    "call_with",
    "collect",
    "in_turn",
    "scripted",
    "text",
    "thinking",
    "until",
    "wait_until",
]

T = TypeVar("T")

_STEP = timedelta(milliseconds=5)


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    within: timedelta = timedelta(seconds=5),
    for_: str = "the condition",
) -> None:
    """Wait until the condition holds; look again every few milliseconds.

    Raises:
        TimeoutError: When it does not hold in time; the text names what was waited for.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            while True:
                if await _holds(condition):
                    return
                await asyncio.sleep(_STEP.total_seconds())
    except TimeoutError as error:
        raise TimeoutError(f"waited {within} for {for_}") from error


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else bool(answer)


async def collect(events: AsyncIterable[T]) -> list[T]:
    """Return all that a stream gives, up to its end."""
    return [event async for event in events]
