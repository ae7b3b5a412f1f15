"""New runs are refused while the server is nearly full, and taken again after."""

from collections.abc import AsyncIterator

import pytest

from loops.errors import MemoryFull
from tests.worker.passes import TENANT, USER, Hands
from worker.link import Link
from worker.memory import MemoryGuard
from worker.runs import NewRun


@pytest.fixture
async def small(link: Link) -> AsyncIterator[Link]:
    """A link to a server whose memory is nine tenths full."""
    told: bytes = await link.command("INFO", "memory")
    used = next(int(line[12:]) for line in told.splitlines() if line.startswith(b"used_memory:"))
    await link.command("CONFIG", "SET", "maxmemory", used * 10 // 9)
    yield link
    await link.command("CONFIG", "SET", "maxmemory", 0)


async def test_a_run_is_refused_and_nothing_of_it_is_kept(small: Link):
    hands = Hands(small)

    with pytest.raises(MemoryFull, match="85%") as refused:
        await hands.resources.runs.create(TENANT, NewRun("agent", [USER]))

    assert refused.value.retry_after.total_seconds() > 0
    assert await small.command("KEYS", "*") == []


async def test_a_higher_limit_takes_it(small: Link):
    hands = Hands(small, {"memory_limit": 0.99})

    assert (await hands.resources.runs.create(TENANT, NewRun("agent", [USER]))).is_new


async def test_a_server_without_a_limit_is_never_full(any_link: Link):
    await MemoryGuard(any_link, 0.0).refuse_when_full()


async def test_the_server_is_asked_once_a_second_at_most(small: Link):
    guard = MemoryGuard(small, 0.99)
    await guard.refuse_when_full()
    await small.command("CONFIG", "SET", "maxmemory", 1)

    for _ in range(10):
        await guard.refuse_when_full()
