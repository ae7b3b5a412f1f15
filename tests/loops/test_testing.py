from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from loops.testing import collect, wait_until


async def test_a_condition_is_waited_for() -> None:
    looks: list[int] = []

    def third() -> bool:
        looks.append(1)
        return len(looks) == 3

    await wait_until(third)

    assert len(looks) == 3


async def test_a_condition_may_have_to_be_waited_for_itself() -> None:
    async def holds() -> bool:
        return True

    await wait_until(holds)


async def test_a_condition_that_never_holds_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0:00:00.010000 for the run to settle"):
        await wait_until(lambda: False, within=timedelta(milliseconds=10), for_="the run to settle")


async def test_a_stream_is_read_to_its_end() -> None:
    async def two() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert await collect(two()) == [1, 2]
