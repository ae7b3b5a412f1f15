import asyncio

import pytest

from loops.errors import RunLeft
from loops.guard import (
    Raised,
    Seat,
    describe,
    outcome_of,
    outcome_of_call,
    renaming,
    unwrapped,
)
from loops.tasks import Owner
from loops.testing import wait_until


async def test_what_users_code_gives_is_given() -> None:
    async def work() -> int:
        return 3

    assert await outcome_of(work) == 3


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        SystemExit(2),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
async def test_whatever_users_code_raises_is_kept(error: BaseException) -> None:
    async def work() -> None:
        raise error

    assert await outcome_of(work) == Raised(error)


async def test_a_pass_that_lost_its_run_is_let_through() -> None:
    async def work() -> None:
        raise RunLeft

    with pytest.raises(RunLeft):
        await outcome_of(work)


async def test_a_cancellation_from_outside_is_let_through() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    owner = Owner()
    task = owner.start(outcome_of(work), name="work")
    await asyncio.sleep(0)

    await owner.close()

    assert task.cancelled()


async def test_code_that_swallows_a_cancellation_is_waited_for() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cleaned up"
        return "never"

    owner = Owner()
    task = owner.start(outcome_of(work), name="work")
    await asyncio.sleep(0)

    await owner.close()

    assert task.result() == "cleaned up"


def test_a_plain_function_is_guarded_the_same_way() -> None:
    assert outcome_of_call(lambda: 3) == 3
    assert isinstance(outcome_of_call(lambda: next(iter([]))), Raised)


async def stopping() -> None:
    raise StopIteration("enough")


async def test_an_error_is_told_by_its_type_and_message() -> None:
    stopped = await outcome_of(stopping)

    assert describe(ValueError("boom")) == "ValueError: boom"
    assert describe(KeyError("x")) == "KeyError: 'x'"
    assert describe(TimeoutError()) == "TimeoutError"
    assert isinstance(stopped, Raised)
    assert stopped.text == "StopIteration: enough"


def test_a_group_of_one_error_is_that_error() -> None:
    inner = ValueError("boom")
    one = ExceptionGroup("a", [ExceptionGroup("b", [inner])])
    two = ExceptionGroup("c", [inner, KeyError("x")])

    assert unwrapped(one) is inner
    assert unwrapped(two) is two


def test_an_error_that_cannot_be_shown_is_still_named() -> None:
    class ShyError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert describe(ShyError()) == "ShyError: (its message cannot be shown)"


def test_a_long_error_is_cut() -> None:
    assert len(describe(ValueError("x" * 100_000))) < 4300


async def test_a_waiting_task_is_sent_away_and_is_not_cancelled() -> None:
    seat, left = Seat(), []

    async def read() -> str:
        try:
            await seat.wait(asyncio.Event().wait)
        except StopAsyncIteration:
            left.append("away")
        await asyncio.sleep(0)
        return "goes on"

    task = Owner().start(read(), name="reader")
    await asyncio.sleep(0)
    await seat.clear()

    assert left == ["away"]
    assert await task == "goes on"


async def test_a_task_that_is_sent_away_and_cancelled_is_cancelled() -> None:
    seat, owner = Seat(), Owner()
    task = owner.start(seat.wait(asyncio.Event().wait), name="reader")
    await asyncio.sleep(0)

    clearing = owner.start(seat.clear(), name="clear")
    await asyncio.sleep(0)
    task.cancel()
    await clearing

    await wait_until(task.done)
    assert task.cancelled()


async def test_an_empty_seat_is_clear() -> None:
    seat = Seat()

    await seat.clear()

    assert await seat.wait(lambda: asyncio.sleep(0, "done")) == "done"


def test_an_error_leaves_a_block_by_another_name_with_itself_as_the_cause() -> None:
    error = KeyError("x")

    with pytest.raises(ValueError, match="renamed 'x'") as caught, renaming(renamed):
        raise error

    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("x"), RunLeft(), asyncio.CancelledError()], ids=repr)
def test_an_error_that_keeps_its_name_leaves_a_block_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, renaming(renamed):
        raise error

    assert caught.value is error
    assert error.__cause__ is None


def renamed(error: Exception) -> Exception:
    return error if isinstance(error, ValueError) else ValueError(f"renamed {error}")
