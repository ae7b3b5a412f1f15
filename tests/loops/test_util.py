import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import RunLeft
from loops.testing import collect
from loops.util import merge

Ticks = Callable[[], Awaitable[None]]


async def read_into(got: list[int], items: AsyncIterable[int]) -> None:
    async for item in items:
        got.append(item)  # noqa: PERF401 - what came before an error is looked at


async def numbers(*values: int) -> AsyncGenerator[int]:
    for value in values:
        yield value


class Shelf:
    """What can be iterated again, and gives what was put on it since."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.begun = 0

    async def __aiter__(self) -> AsyncIterator[int]:
        self.begun += 1
        while self.values:
            yield self.values.pop(0)


@pytest.mark.parametrize(
    "sources", [[], [()], [(1,)], [(1, 2), ()], [(1, 2, 3), (4,), (5, 6, 7, 8)]]
)
async def test_all_items_of_all_sources_come(sources: list[tuple[int, ...]]) -> None:
    merged = await collect(merge(*(numbers(*values) for values in sources)))

    assert sorted(merged) == sorted(value for values in sources for value in values)


@given(st.lists(st.lists(st.integers(), max_size=4), max_size=4))
async def test_each_source_keeps_its_order(sources: list[list[int]]) -> None:
    async def named(name: int, values: list[int]) -> AsyncGenerator[tuple[int, int]]:
        for value in values:
            yield name, value

    merged = await collect(merge(*(named(name, each) for name, each in enumerate(sources))))

    for name, values in enumerate(sources):
        assert [value for source, value in merged if source == name] == values


async def test_what_is_there_first_comes_first() -> None:
    gate = asyncio.Event()

    async def late() -> AsyncGenerator[str]:
        await gate.wait()
        yield "late"

    async def early() -> AsyncGenerator[str]:
        yield "early"
        gate.set()

    assert await collect(merge(late(), early())) == ["early", "late"]


async def test_no_source_runs_ahead_of_the_reader(ticks: Ticks) -> None:
    produced = [0, 0]

    async def count(source: int) -> AsyncGenerator[int]:
        while True:
            produced[source] += 1
            yield source

    merged = merge(count(0), count(1))
    given = [0, 0]
    for _ in range(6):
        given[await anext(merged)] += 1
        await ticks()
        assert all(produced[each] <= given[each] + 1 for each in (0, 1))
    await merged.aclose()


async def test_a_source_goes_on_only_after_its_item_was_dealt_with(ticks: Ticks) -> None:
    went_on: list[str] = []

    async def source() -> AsyncGenerator[int]:
        yield 1
        went_on.append("on")

    async for _ in merge(source()):
        await ticks()
        assert went_on == []

    assert went_on == ["on"]


async def test_an_error_comes_bare_after_the_items_before_it() -> None:
    closed: list[str] = []

    async def failing() -> AsyncGenerator[int]:
        yield 1
        raise ValueError("boom")

    async def waiting() -> AsyncGenerator[int]:
        try:
            await asyncio.Event().wait()
            yield 0
        finally:
            closed.append("waiting")

    got: list[int] = []
    with pytest.raises(ValueError, match="boom"):
        await read_into(got, merge(failing(), waiting()))

    assert (got, closed) == ([1], ["waiting"])


@pytest.mark.parametrize("error", [RunLeft(), SystemExit(2), asyncio.CancelledError()], ids=repr)
async def test_no_error_of_a_source_is_lost(error: BaseException) -> None:
    async def failing() -> AsyncGenerator[int]:
        raise error
        yield 0

    with pytest.raises(type(error)):
        await collect(merge(failing(), numbers(1)))


async def test_a_source_that_got_something_new_is_iterated_again() -> None:
    shelf, got = Shelf(), list[int]()

    async for value in merge(numbers(1, 2, 3), shelf):
        got.append(value)
        if value < 10:
            shelf.values.append(10 * value)

    assert sorted(got) == [1, 2, 3, 10, 20, 30]
    assert shelf.begun in {3, 4}


@pytest.mark.parametrize("repeat", range(25))
async def test_what_is_put_in_the_last_moment_still_comes(repeat: int) -> None:
    shelf = Shelf()

    async def driver() -> AsyncGenerator[int]:
        for _ in range(repeat % 5):
            await asyncio.sleep(0)
        yield 1

    got: list[int] = []
    async for value in merge(driver(), shelf):
        got.append(value)
        if value == 1:
            shelf.values.append(2)

    assert got == [1, 2]


async def test_two_shelves_feed_each_other_until_neither_has_anything() -> None:
    one, two, got = Shelf(), Shelf(), list[int]()
    one.values = [4]

    async for value in merge(one, two):
        got.append(value)
        if value:
            (two if value % 2 == 0 else one).values.append(value - 1)

    assert got == [4, 3, 2, 1, 0]


async def test_a_shelf_alone_is_iterated_once() -> None:
    shelf = Shelf()
    shelf.values = [1]

    async for _ in merge(shelf):
        if shelf.begun == 1:
            shelf.values.append(2)
            shelf.begun += 1

    assert shelf.begun == 2


async def test_a_shelf_that_says_it_is_idle_is_not_tried() -> None:
    class Idle(Shelf):
        is_idle = True

    shelf = Idle()
    await collect(merge(numbers(1, 2, 3), shelf))

    assert shelf.begun == 1


async def test_sources_are_closed_in_their_own_surroundings() -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")
    seen: list[str] = []

    async def source() -> AsyncGenerator[int]:
        token = colour.set("red")
        try:
            while True:
                yield 1
                seen.append(colour.get())
        finally:
            colour.reset(token)
            seen.append("closed")

    merged = merge(source())
    await anext(merged)
    await anext(merged)
    await merged.aclose()

    assert (seen, colour.get()) == (["red", "closed"], "none")


async def test_leaving_early_closes_all_sources() -> None:
    closed: list[int] = []

    async def source(name: int) -> AsyncGenerator[int]:
        try:
            yield name
            await asyncio.Event().wait()
        finally:
            closed.append(name)

    merged = merge(source(1), source(2))
    await anext(merged)
    await merged.aclose()

    assert sorted(closed) == [1, 2]
