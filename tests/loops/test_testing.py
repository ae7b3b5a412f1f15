from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from loops import testing
from loops.providers import scripted as providers
from loops.testing import collect, wait_until

SCRIPT = ("scripted", "text", "call", "call_with", "thinking", "until", "in_turn")


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


def test_a_test_has_all_that_it_needs_from_one_place() -> None:
    assert {name: getattr(testing, name) for name in SCRIPT} == {
        name: getattr(providers, name) for name in SCRIPT
    }
    assert set(testing.__all__) == {*SCRIPT, "collect", "wait_until"}
