"""What arrives from several sides at once: in which order, how long it takes, how it is closed."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from heapq import heappop, heappush

import pytest

from loops.buffer import Buffer
from loops.tasks import Owner
from loops.testing import collect
from loops.util import merge

pytestmark = pytest.mark.timeout(10)


class Clock:
    """Time that goes on when nothing else can: whoever sleeps is woken, the earliest first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._count = itertools.count()
        self._alarms: list[tuple[float, int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        """Wait until so much of this time has gone by."""
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._alarms, (self.now + seconds, next(self._count), alarm))
        await alarm

    async def tick(self) -> None:
        """Let time go on, until cancelled."""
        while True:
            for _ in range(50):
                await asyncio.sleep(0)
            if self._alarms:
                self.now, _, alarm = heappop(self._alarms)
                alarm.set_result(None)


async def test_6_what_the_runtime_tells_arrives_beside_what_the_loop_yields() -> None:
    gate = asyncio.Event()

    async def source() -> AsyncGenerator[str]:
        await gate.wait()
        yield "yielded"

    buffer, owner = Buffer(source, size=0), Owner()
    reading = owner.start(collect(buffer), name="reader")
    await asyncio.sleep(0)
    buffer.put("told")
    gate.set()

    assert await reading == ["told", "yielded"]


async def test_117_sources_wait_side_by_side() -> None:
    clock, owner = Clock(), Owner()

    async def twice(seconds: float) -> AsyncGenerator[float]:
        for _ in range(2):
            await clock.sleep(seconds)
            yield seconds

    owner.start(clock.tick(), name="clock")
    order = await collect(merge(twice(10), twice(5)))
    await owner.close()

    assert (order[0], sorted(order)) == (5, [5, 5, 10, 10])
    assert clock.now == 20


@pytest.mark.parametrize("size", [0, 1, None])
async def test_123_what_is_told_in_between_comes_before_the_next_item(size: int | None) -> None:
    async def source() -> AsyncGenerator[str]:
        for number in range(3):
            buffer.put(f"before {number}")
            yield f"item {number}"

    buffer: Buffer[str] = Buffer(source, size=size)

    assert await collect(buffer) == [
        f"{what} {number}" for number in range(3) for what in ("before", "item")
    ]


async def test_123_whatever_is_told_the_source_goes_on_by_its_own_items() -> None:
    begun: list[int] = []

    async def source() -> AsyncGenerator[str]:
        for number in range(3):
            begun.append(number)
            yield f"item {number}"

    buffer = Buffer(source, size=0)
    first = await anext(buffer)
    for _ in range(3):
        buffer.put("told")
    told = [await anext(buffer) for _ in range(3)]

    assert (first, told, begun) == ("item 0", ["told"] * 3, [0])
    assert await collect(buffer) == ["item 1", "item 2"]


class Pile:
    """Items that lie ready, and who takes them one by one."""

    def __init__(self, *items: str) -> None:
        self.items = list(items)
        self.taken = 0

    async def __aiter__(self) -> AsyncGenerator[str]:
        while self.items:
            self.taken += 1
            yield self.items.pop(0)


async def test_123_the_source_that_was_named_first_comes_first() -> None:
    urgent, usual = Pile("u0"), Pile("a0", "a1", "a2")
    given: list[str] = []

    async for item in merge(urgent, usual, restart=False, priority=True):
        given.append(item)
        # What lies ready has arrived by then, and waits.
        for _ in range(5):
            await asyncio.sleep(0)

    assert given == ["u0", "a0", "a1", "a2"]


@pytest.mark.parametrize(("ranks", "order"), [(True, "first second"), (False, "second first")])
async def test_123_priority_goes_before_arrival(ranks: bool, order: str) -> None:
    gate = asyncio.Event()

    async def waits() -> AsyncGenerator[str]:
        await gate.wait()
        yield "first"

    async def arrives() -> AsyncGenerator[str]:
        yield "second"

    async def opens() -> AsyncGenerator[str]:
        yield "opening"
        await asyncio.Event().wait()

    merged = merge(waits(), opens(), arrives(), restart=False, priority=ranks)
    assert await anext(merged) == "opening"
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert f"{await anext(merged)} {await anext(merged)}" == order
    await merged.aclose()


async def test_123_what_came_before_an_error_comes_before_it() -> None:
    async def fails() -> AsyncGenerator[str]:
        await asyncio.sleep(0)
        raise ValueError("boom")
        yield ""

    merged = merge(fails(), Pile("a0"), restart=False, priority=True)

    assert await anext(merged) == "a0"
    with pytest.raises(ValueError, match="boom"):
        await anext(merged)


async def test_123_priority_iterates_each_source_once() -> None:
    with pytest.raises(ValueError, match="restart=False"):
        await collect(merge(Pile("a"), priority=True))


@pytest.mark.parametrize(("restarts", "late"), [(True, 3), (False, 0)])
async def test_124_without_restart_each_source_is_iterated_once(restarts: bool, late: int) -> None:
    pile = Pile()

    async def drives() -> AsyncGenerator[str]:
        for number in range(3):
            pile.items.append(f"late {number}")
            yield f"item {number}"

    given = [item async for item in merge(pile, drives(), restart=restarts)]

    assert len([item for item in given if item.startswith("item")]) == 3
    assert len([item for item in given if item.startswith("late")]) == late


async def test_124_what_is_its_own_iterator_is_not_iterated_again() -> None:
    class Once:
        """An iterator that is at its end."""

        asked = 0

        def __aiter__(self) -> "Once":
            return self

        async def __anext__(self) -> int:
            self.asked += 1
            raise StopAsyncIteration

    async def three() -> AsyncGenerator[int]:
        for number in range(3):
            yield number

    once = Once()

    assert await collect(merge(three(), once)) == [0, 1, 2]
    assert once.asked == 1


async def test_125_a_source_is_given_the_time_that_it_takes_to_close() -> None:
    closed: list[int] = []

    async def source(name: int) -> AsyncGenerator[int]:
        try:
            yield name
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            closed.append(name)

    merged = merge(source(1), source(2))
    async for _ in merged:
        break
    await merged.aclose()

    assert closed == [1, 2]


def test_125_what_the_end_of_a_program_finds_open_is_closed_where_it_ran() -> None:
    colour: ContextVar[str] = ContextVar("colour")
    closed: list[str] = []
    left: list[AsyncGenerator[int]] = []

    async def source() -> AsyncGenerator[int]:
        token = colour.set("red")
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.append(colour.get())
            colour.reset(token)

    async def program() -> None:
        left.append(merge(source(), source()))
        await anext(left[0])

    asyncio.run(program())

    assert closed == ["red", "red"]
