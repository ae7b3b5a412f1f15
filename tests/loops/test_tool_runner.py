import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loops.bound_call import BoundToolCall
from loops.errors import LoopFailed, RunLeft
from loops.events import PartialToolCallResult, ToolCallResult
from loops.local import LocalRuntime
from loops.messages import ToolCall, ToolResult
from loops.testing import collect
from loops.tool_context import ToolContext
from loops.tool_runner import ToolRunner
from loops.tools import tool


def result(name: str) -> ToolCallResult:
    return ToolCallResult(f"turn:1.{name}", name, "t", name)


class Gate:
    """A function that answers when it is let."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = asyncio.Event()
        self.is_begun = False

    async def __call__(self) -> ToolCallResult:
        self.is_begun = True
        await self.is_open.wait()
        return result(self.name)


def bound(function: Callable[..., Any], number: int = 0) -> BoundToolCall:
    call = ToolCall(f"id_{number}", f"turn:1.{number}", "t", "{}", "turn:1", number, 1)
    return BoundToolCall(call, tool(name="t")(function), LocalRuntime)


async def quick() -> str:
    return "done"


async def test_calls_run_from_the_moment_they_are_scheduled() -> None:
    async with ToolRunner() as runner:
        gates = [Gate("a"), Gate("b")]
        for gate in gates:
            runner.schedule(gate)
        await asyncio.sleep(0)

        assert all(gate.is_begun for gate in gates)
        for gate in gates:
            gate.is_open.set()


async def test_results_come_in_the_order_in_which_they_are_there() -> None:
    async with ToolRunner() as runner:
        first, second = Gate("a"), Gate("b")
        runner.schedule(first)
        runner.schedule(second)
        second.is_open.set()
        results = runner.events().__aiter__()

        assert await anext(results) == result("b")
        first.is_open.set()
        assert await anext(results) == result("a")
        assert [each async for each in results] == []


async def test_the_message_holds_what_was_given_in_that_order() -> None:
    async with ToolRunner() as runner:
        first, second = Gate("a"), Gate("b")
        runner.schedule(first)
        runner.schedule(second)
        second.is_open.set()
        await anext(aiter(runner.events()))
        early = runner.get_tool_message()
        first.is_open.set()
        await collect(runner.events())
        late = runner.get_tool_message()

    assert early is not None
    assert late is not None
    assert [block.tool_use_id for block in early.tool_results] == ["b"]
    assert [block.tool_use_id for block in late.tool_results] == ["b", "a"]


async def test_without_calls_there_is_no_message() -> None:
    async with ToolRunner() as runner:
        assert await collect(runner.events()) == []

    assert runner.get_tool_message() is None


async def test_results_can_be_read_again_after_more_was_scheduled() -> None:
    async with ToolRunner() as runner:
        results = runner.events()
        assert results.is_idle
        runner.schedule(bound(quick, 1))
        assert not results.is_idle
        one = await collect(results)
        runner.schedule(bound(quick, 2))
        two = await collect(results)

    assert [each.call for each in one + two] == ["turn:1.1", "turn:1.2"]


async def test_partial_results_come_before_their_result() -> None:
    async def talk(context: ToolContext) -> str:
        for number in range(5):
            context.progress(number)
        return "done"

    async with ToolRunner() as runner:
        runner.schedule(bound(talk))
        events = await collect(runner.events())

    assert [e.value for e in events if isinstance(e, PartialToolCallResult)] == [0, 1, 2, 3, 4]
    assert isinstance(events[-1], ToolCallResult)


async def test_a_known_result_is_given_like_any_other() -> None:
    async with ToolRunner() as runner:
        runner.add_result(ToolResult("turn:1.0", "a", "t", "known"))
        runner.add_result(result("b"))

        assert [each.call for each in await collect(runner.events())] == ["turn:1.0", "turn:1.b"]


async def test_a_discarded_call_leaves_no_trace() -> None:
    async with ToolRunner() as runner:
        task = runner.schedule(Gate("a"))
        await asyncio.sleep(0)
        runner.discard(task)

        assert await collect(runner.events()) == []

    assert task.cancelled()
    assert runner.get_tool_message() is None


async def test_a_cancelled_call_still_gets_its_one_result() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async with ToolRunner() as runner:
        task = runner.schedule(bound(wait))
        await asyncio.sleep(0)
        task.cancel()
        (told,) = await collect(runner.events())

    assert isinstance(told, ToolCallResult)
    assert (told.is_error, told.content) == (True, "CancelledError: the call was cancelled")
    assert isinstance(told.exception, asyncio.CancelledError)


async def test_the_task_of_a_call_gives_its_result_too() -> None:
    async with ToolRunner() as runner:
        assert (await runner.schedule(bound(quick))).content == "done"


async def test_leaving_waits_for_all_calls() -> None:
    done: list[str] = []

    async def slow() -> ToolCallResult:
        for _ in range(10):
            await asyncio.sleep(0)
        done.append("slow")
        return result("a")

    async with ToolRunner() as runner:
        runner.schedule(slow)

    assert done == ["slow"]
    assert runner.get_tool_message() is None


@pytest.mark.parametrize("repeat", range(5))
async def test_leaving_by_an_error_cancels_the_oldest_call_first(repeat: int) -> None:
    order: list[int] = []

    def waiting(number: int) -> BoundToolCall:
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                order.append(number)

        return bound(wait, number)

    async def fail() -> None:
        async with ToolRunner() as runner:
            for number in range(3):
                runner.schedule(waiting(number))
            await asyncio.sleep(0)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()

    assert order == [0, 1, 2]


async def run_all(*functions: Callable[[], Any]) -> list[Any]:
    """Schedule the functions and read their results."""
    async with ToolRunner() as runner:
        for function in functions:
            runner.schedule(function)
        return await collect(runner.events())


class Broken:
    """A scheduled function that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def __call__(self) -> ToolCallResult:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("boom"), RunLeft()], ids=repr)
async def test_what_a_function_raises_reaches_whoever_reads_the_results(
    error: BaseException,
) -> None:
    with pytest.raises(type(error)) as caught:
        await run_all(Broken(error))

    assert caught.value is error


@pytest.mark.parametrize("error", [ValueError("boom"), RunLeft()], ids=repr)
async def test_what_a_function_raises_is_raised_at_the_end_if_nobody_reads(
    error: BaseException,
) -> None:
    with pytest.raises(type(error)):
        async with ToolRunner() as runner:
            runner.schedule(Broken(error))


async def test_a_failure_tells_of_those_that_came_with_it() -> None:
    first, second = ValueError("boom"), KeyError("x")

    with pytest.raises(ValueError, match="boom") as caught:
        await run_all(Broken(first), Broken(second), Broken(first))

    assert caught.value.__notes__ == ["another scheduled function failed, too: KeyError: 'x'"]


async def test_a_loops_own_error_tells_of_the_calls_that_failed_with_it() -> None:
    async def fail_when_cancelled() -> ToolCallResult:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("x")

    async def fail() -> None:
        async with ToolRunner() as runner:
            runner.schedule(fail_when_cancelled)
            await asyncio.sleep(0)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        await fail()

    assert caught.value.__notes__ == ["another scheduled function failed, too: KeyError: 'x'"]


async def test_an_exit_of_a_function_does_not_stop_the_event_loop() -> None:
    with pytest.raises(LoopFailed, match=r"raised SystemExit\(3\)"):
        async with ToolRunner() as runner:
            runner.schedule(Broken(SystemExit(3)))


async def test_a_failure_closes_the_calls_beside_it() -> None:
    closed: list[str] = []

    async def wait() -> ToolCallResult:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("closed")
        return result("a")

    with pytest.raises(ValueError, match="boom"):
        await run_all(wait, Broken(ValueError("boom")))

    assert closed == ["closed"]


async def test_calls_past_the_limit_are_answered_and_not_made() -> None:
    made: list[int] = []

    async def count() -> int:
        made.append(1)
        return len(made)

    async with ToolRunner(calls_per_turn=2) as runner:
        for number in range(4):
            runner.schedule(bound(count, number))
        events = await collect(runner.events())

    assert len(made) == 2
    assert [e.is_error for e in events if isinstance(e, ToolCallResult)].count(True) == 2
    assert "at most 2 calls" in str(events)


async def test_a_function_past_the_limit_that_nobody_could_answer_for_is_refused() -> None:
    async with ToolRunner(calls_per_turn=0) as runner:
        with pytest.raises(LoopFailed, match="no identity"):
            runner.schedule(Gate("a"))


async def test_a_function_that_answers_with_something_else_fails() -> None:
    async def wrong() -> Any:
        return 3

    with pytest.raises(LoopFailed, match="not with 3"):
        await run_all(wrong)


def test_a_runner_is_entered_before_it_is_used() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        ToolRunner().schedule(Gate("a"))
