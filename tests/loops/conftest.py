import asyncio
from collections.abc import Awaitable, Callable

import pytest

Ticks = Callable[[], Awaitable[None]]


@pytest.fixture
def ticks() -> Ticks:
    """Let everything that can go on go on, as far as it comes without the outside."""

    async def wait() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    return wait
