import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import pytest

from loops.buffer import Buffer
from loops.errors import LoopFailed, RunLeft
from loops.testing import collect

Ticks = Callable[[], Awaitable[None]]


async def read_into(got: list[int], items: AsyncIterable[int]) -> None:
    async for item in items:
        got.append(item)  # noqa: PERF401 - what came before an error is looked at


class Source:
    """Ten numbers, and how far they were produced."""

    def __init__(self) -> None:
        self.produced = 0
        self.is_closed = False

    async def __call__(self) -> AsyncGenerator[int]:
        try:
            for number in range(10):
                self.produced += 1
                yield number
        finally:
            self.is_closed = True


@pytest.mark.parametrize(
    ("size", "produced"), [(0, [1, 2, 3]), (1, [2, 3, 4]), (2, [3, 4, 5]), (None, [10, 10, 10])]
)
async def test_a_source_is_ahead_by_the_size_at_most(
    size: int | None, produced: list[int], ticks: Ticks
) -> None:
    source = Source()
    buffer = Buffer(source, size=size)
    seen: list[int] = []
    for _ in range(3):
        await anext(buffer)
        await ticks()
        seen.append(source.produced)

    assert seen == produced
    await buffer.aclose()


@pytest.mark.parametrize("size", [0, 3, None])
async def test_all_items_come_in_order(size: int | None) -> None:
    assert await collect(Buffer(Source(), size=size)) == list(range(10))


async def test_nothing_runs_before_the_first_question(ticks: Ticks) -> None:
    source = Source()
    buffer = Buffer(source, size=None)
    await ticks()

    assert source.produced == 0
    await buffer.aclose()
    assert await collect(buffer) == []
    assert source.produced == 0


async def failing() -> AsyncGenerator[int]:
    yield 1
    yield 2
    raise ValueError("boom")


@pytest.mark.parametrize("size", [0, 1, None])
async def test_an_error_comes_once_after_the_items_before_it(size: int | None) -> None:
    buffer, got = Buffer(failing, size=size), list[int]()

    with pytest.raises(ValueError, match="boom"):
        await read_into(got, buffer)

    assert got == [1, 2]
    assert await collect(buffer) == []


@pytest.mark.parametrize("size", [0, None])
async def test_a_reader_that_gives_up_waiting_loses_nothing(size: int | None, ticks: Ticks) -> None:
    gate = asyncio.Event()

    async def late() -> AsyncGenerator[int]:
        await gate.wait()
        yield 1

    buffer = Buffer(late, size=size)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(buffer)
    gate.set()
    await ticks()

    assert await collect(buffer) == [1]


async def test_a_source_that_says_it_was_cancelled_does_not_hang_its_reader() -> None:
    async def odd() -> AsyncGenerator[int]:
        yield 1
        raise asyncio.CancelledError

    buffer = Buffer(odd, size=None)

    assert await anext(buffer) == 1
    with pytest.raises(LoopFailed, match="nobody cancelled it"):
        await anext(buffer)


@pytest.mark.parametrize("error", [RunLeft(), SystemExit(2), KeyboardInterrupt()], ids=repr)
async def test_errors_that_stop_programs_reach_the_reader(error: BaseException) -> None:
    async def stopping() -> AsyncGenerator[int]:
        raise error
        yield 0

    with pytest.raises(type(error)):
        await collect(Buffer(stopping, size=None))


@pytest.mark.parametrize("size", [0, None])
async def test_closing_closes_the_source_where_it_ran(size: int | None) -> None:
    colour: ContextVar[str] = ContextVar("colour")
    closed: list[str] = []

    async def source() -> AsyncGenerator[int]:
        token = colour.set("red")
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.append(colour.get())
            colour.reset(token)

    buffer = Buffer(source, size=size)
    await anext(buffer)
    await buffer.aclose()

    assert closed == ["red"]
    assert await collect(buffer) == []


async def test_what_a_source_raises_when_it_is_closed_is_raised() -> None:
    async def source() -> AsyncGenerator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            raise ValueError("not now")

    buffer = Buffer(source, size=None)
    await anext(buffer)

    with pytest.raises(ValueError, match="not now"):
        await buffer.aclose()


async def test_an_iterator_that_cannot_be_closed_is_fine() -> None:
    class Plain:
        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            raise StopAsyncIteration

    assert await collect(Buffer(Plain, size=None)) == []
