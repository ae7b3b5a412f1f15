import asyncio
import threading
from contextvars import ContextVar

import pytest

from loops.guard import Raised
from loops.tasks import Owner, Signal, in_thread
from loops.testing import wait_until


async def test_tasks_are_cancelled_in_the_order_in_which_they_were_made() -> None:
    order: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append(number)

    owner = Owner()
    for number in range(5):
        owner.start(wait(number), name=str(number))
    await asyncio.sleep(0)
    await owner.close()

    assert order == [0, 1, 2, 3, 4]


async def test_an_owner_waits_for_tasks_that_its_tasks_made() -> None:
    owner, done = Owner(), []

    async def inner() -> None:
        done.append("inner")

    async def outer() -> None:
        owner.start(inner(), name="inner")

    owner.start(outer(), name="outer")
    await owner.join()

    assert done == ["inner"]


async def test_an_owner_of_nothing_closes_at_once() -> None:
    await Owner().close()


async def test_a_failed_task_keeps_its_error_to_itself() -> None:
    async def fail() -> None:
        raise ValueError("boom")

    owner = Owner()
    task = owner.start(fail(), name="fail")

    await owner.join()

    with pytest.raises(ValueError, match="boom"):
        task.result()


async def test_a_function_runs_in_a_thread_with_the_callers_surroundings() -> None:
    colour: ContextVar[str] = ContextVar("colour")
    colour.set("red")

    seen = await in_thread(lambda: (colour.get(), threading.current_thread().name), name="t")

    assert seen == ("red", "t")


async def test_what_a_function_in_a_thread_raises_is_given() -> None:
    def stop() -> None:
        raise StopIteration("enough")

    outcome = await in_thread(stop, name="t")

    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, StopIteration)


async def test_a_thread_that_nobody_waits_for_comes_to_its_end() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(5)
        done.set()

    owner = Owner()
    owner.start(in_thread(work, name="t"), name="waiter")
    await asyncio.sleep(0)
    await owner.close()
    go.set()

    await wait_until(done.is_set)


async def test_a_signal_reaches_those_who_wait_and_no_later_one() -> None:
    signal = Signal()
    waiting = [signal.wait() for _ in range(2)]

    signal.call()
    late = signal.wait()

    assert all(future.done() for future in waiting)
    assert not late.done()


async def test_a_signal_forgets_those_who_stopped_waiting() -> None:
    signal = Signal()
    for _ in range(1000):
        signal.wait().cancel()
    kept = signal.wait()

    assert len(signal._waiting) < 20
    signal.call()
    assert kept.done()
    assert not kept.cancelled()
