"""Close iterators that can be closed; most asynchronous iterators are not obliged to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast


async def close(iterator: object) -> None:
    """Close the iterator if it can be closed, and wait for its `finally` blocks."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is not None:
        await cast("Callable[[], Awaitable[object]]", aclose)()


@asynccontextmanager
async def closing(iterator: object) -> AsyncGenerator[None]:
    """Close the iterator at the end of the block."""
    try:
        yield
    finally:
        await close(iterator)
