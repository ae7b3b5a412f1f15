import asyncio
import math
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from loops.events import TextDelta
from loops.messages import ToolCall
from loops.perform import longest, perform
from loops.tasks import Owner
from loops.testing import wait_until
from loops.tool_context import ToolContext, current_tool_call
from loops.tools import Tool, tool

CALL = ToolCall("a", "turn:1.0", "t", "{}")


async def outcome(function: Any, arguments: str = "{}", **options: Any) -> tuple[Any, bool]:
    made = function if isinstance(function, Tool) else tool(**options)(function)
    result = await perform(made, arguments, ToolContext(call=CALL))
    return result.content, result.is_error


async def test_the_result_carries_the_identity_of_the_call() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        return a + b

    result = await perform(add, '{"a": 1, "b": "2"}', ToolContext(call=CALL))

    assert (result.call, result.id, result.name) == ("turn:1.0", "a", "add")
    assert result.content == 3


async def test_a_plain_function_runs_in_a_thread() -> None:
    def where() -> str:
        return threading.current_thread().name

    assert await outcome(where) == ("tool where", False)


async def test_a_plain_function_may_give_something_to_wait_for() -> None:
    async def inner() -> str:
        return "inner"

    def outer() -> Any:
        return inner()

    assert await outcome(outer) == ("inner", False)


async def test_whatever_a_tool_gives_is_made_json() -> None:
    async def odd() -> dict[str, Any]:
        return {"nan": math.nan, "bytes": b"abc", "set": {1}, "half": "\ud83d"}

    assert await outcome(odd) == (
        {"nan": "nan", "bytes": "YWJj", "set": [1], "half": "\ufffd"},
        False,
    )


async def test_a_long_result_is_cut_with_its_true_length() -> None:
    async def long() -> str:
        return "x" * 300_000

    content, _ = await outcome(long)

    assert content.endswith("[cut: 300000 characters in all, the first 262144 are shown]")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ExceptionGroup("g", [KeyError("x")]), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (StopIteration("x"), "StopIteration: x"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("mine"), "TimeoutError: mine"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_whatever_a_tool_raises_is_its_result(error: BaseException, told: str) -> None:
    async def fail() -> None:
        raise error

    def fail_in_thread() -> None:
        raise error

    assert await outcome(fail) == (told, True)
    assert await outcome(fail_in_thread) == (told, True)


async def test_a_result_that_cannot_be_shown_is_an_error() -> None:
    class Shy:
        def __str__(self) -> str:
            raise RuntimeError("never")

    async def give() -> Shy:
        return Shy()

    assert await outcome(give) == ("RuntimeError: never", True)


class Connection:
    """What JSON cannot say."""


@pytest.mark.parametrize("in_thread", [True, False])
async def test_an_object_that_json_cannot_say_is_an_error_that_names_it(in_thread: bool) -> None:
    async def connect() -> list[Connection]:
        return [Connection()]

    def connect_in_thread() -> list[Connection]:
        return [Connection()]

    content, is_error = await outcome(connect_in_thread if in_thread else connect)

    assert is_error
    assert content == (
        f"TypeError: JSON has no form for an object of the class '{__name__}.Connection'; "
        "give text, a number, a list, a dict, a dataclass or a pydantic model"
    )


async def test_arguments_that_do_not_fit_are_an_error_with_the_real_problem() -> None:
    async def double(number: int) -> int:
        return 2 * number

    content, is_error = await outcome(double, '{"number": "many"}')

    assert is_error
    assert content.startswith("InvalidArguments: the arguments of 'double' do not fit: number:")


async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    async def wait(context: ToolContext) -> None:
        await asyncio.Event().wait()

    content, is_error = await outcome(wait, timeout=timedelta(milliseconds=10))

    assert (content, is_error) == ("ToolTimedOut: 'wait' took longer than 0:00:00.010000", True)


async def test_the_limit_of_the_caller_is_for_tools_without_one() -> None:
    @tool
    async def wait() -> None:
        await asyncio.Event().wait()

    result = await perform(wait, "", ToolContext(), timeout=timedelta(milliseconds=10))

    assert result.text.startswith("ToolTimedOut")


async def test_a_thread_that_is_out_of_time_is_told() -> None:
    told = threading.Event()

    def wait(context: ToolContext) -> None:
        if context.cancelled.wait(5):
            told.set()

    content, _ = await outcome(wait, timeout=timedelta(milliseconds=10))

    assert content.startswith("ToolTimedOut")
    await wait_until(told.is_set, for_="the thread to be told")


async def test_a_cancelled_call_is_told_and_stays_cancelled() -> None:
    @tool
    async def wait() -> None:
        await asyncio.Event().wait()

    context, owner = ToolContext(call=CALL), Owner()
    task = owner.start(perform(wait, "", context), name="call")
    await asyncio.sleep(0)
    await owner.close()

    assert task.cancelled()
    assert context.cancelled.is_set()


async def test_a_tool_that_comes_to_its_end_was_not_cancelled() -> None:
    @tool
    async def quick() -> None: ...

    context = ToolContext(call=CALL)
    await perform(quick, "", context)

    assert not context.cancelled.is_set()


class Told:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.values: list[tuple[object, bool]] = []

    def __call__(self, value: object, *, kept: bool) -> None:
        self.values.append((value, kept))


async def count_up(until: int) -> AsyncIterator[int]:
    for number in range(until):
        yield number


def count_in_thread(until: int) -> Iterator[int]:
    yield from range(until)


def count_by_object(until: int) -> AsyncIterator[int]:
    return count_up(until)


@pytest.mark.parametrize("function", [count_up, count_in_thread, count_by_object])
async def test_values_of_a_stream_are_all_given_and_the_last_is_the_result(function: Any) -> None:
    told = Told()

    result = await perform(tool(function), '{"until": 3}', ToolContext(sink=told))

    assert told.values == [(0, True), (1, True), (2, True)]
    assert result.content == 2


async def test_a_stream_of_nothing_gives_nothing() -> None:
    assert await outcome(count_up, '{"until": 0}') == (None, False)


async def test_events_that_a_tool_passes_on_take_their_wire_form() -> None:
    async def talk() -> AsyncIterator[TextDelta]:
        yield TextDelta(0, "x")

    assert (await outcome(talk))[0] == {"type": "text.delta", "data": {"block": 0, "text": "x"}}


@pytest.mark.parametrize("in_thread", [True, False])
async def test_progress_is_told_from_anywhere(in_thread: bool) -> None:
    told = Told()

    async def slow(context: ToolContext) -> str:
        context.progress({1})
        return "done"

    def slow_in_thread(context: ToolContext) -> str:
        context.progress({1})
        return "done"

    made = tool(slow_in_thread if in_thread else slow)
    await perform(made, "", ToolContext(sink=told))

    assert told.values == [([1], False)]


async def test_a_tool_can_ask_which_call_it_is() -> None:
    async def ask() -> str:
        return current_tool_call().key

    def ask_in_thread() -> str:
        return current_tool_call().key

    assert await outcome(ask) == ("turn:1.0", False)
    assert await outcome(ask_in_thread) == ("turn:1.0", False)
    with pytest.raises(LookupError, match="no tool is being called"):
        current_tool_call()


async def test_a_function_with_some_arguments_given_is_of_the_kind_it_was() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    assert await outcome(partial(add, 1), '{"b": 2}', name="add") == (3, False)


async def test_an_object_that_is_awaited_runs_in_the_loop() -> None:
    class Where:
        async def __call__(self) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert await outcome(Where(), name="where") == (True, False)


async def test_a_tool_that_fails_is_called_again_as_often_as_it_may() -> None:
    attempts: list[int] = []

    @tool(retries=2)
    async def flaky(context: ToolContext) -> str:
        attempts.append(context.attempt)
        if len(attempts) < 3:
            raise LookupError("not yet")
        return "now"

    assert await outcome(flaky) == ("now", False)
    assert attempts == [1, 2, 3]


async def test_a_tool_that_goes_on_failing_gives_its_last_failure() -> None:
    tries: list[int] = []

    @tool(retries=1)
    def broken() -> None:
        tries.append(1)
        raise LookupError(f"try {len(tries)}")

    assert await outcome(broken) == ("LookupError: try 2", True)


async def test_arguments_that_do_not_fit_are_not_tried_again() -> None:
    @tool(retries=5)
    async def double(x: int) -> int:
        return 2 * x

    content, is_error = await outcome(double, '{"x": "a"}')

    assert is_error
    assert content.startswith("InvalidArguments")


async def test_each_try_of_a_tool_has_its_whole_time() -> None:
    tries: list[int] = []

    @tool(retries=1, timeout=timedelta(milliseconds=200))
    async def slow() -> str:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.sleep(60)
        return "done"

    assert await outcome(slow) == ("done", False)
    assert longest(slow, timedelta(minutes=5)) >= timedelta(milliseconds=400)


async def test_a_thread_that_is_cancelled_in_a_later_try_is_told() -> None:
    told, began = threading.Event(), threading.Event()

    @tool(retries=3)
    def stubborn(context: ToolContext) -> None:
        if context.attempt == 1:
            raise LookupError("again")
        began.set()
        if context.cancelled.wait(10):
            told.set()

    owner = Owner()
    owner.start(perform(stubborn, "{}", ToolContext(call=CALL)), name="call")
    await wait_until(began.is_set, within=timedelta(seconds=5))
    await owner.close()

    await wait_until(told.is_set, within=timedelta(seconds=5))
