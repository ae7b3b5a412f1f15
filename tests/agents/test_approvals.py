"""Approvals in one process: a call that a person has to grant."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import loops as ai
from loops.errors import SetupError
from loops.events import AgentEvent, HookEvent, RunBlocked, ToolCallResult
from loops.testing import call, call_with, in_turn

pytestmark = pytest.mark.timeout(10)

paid: list[int] = []


@ai.tool(require_approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@ai.tool(require_approval=lambda arguments: arguments["amount"] > 100)
async def spend(amount: int) -> str:
    """Spend an amount."""
    paid.append(amount)
    return f"spent {amount}"


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    paid.clear()


async def through(
    answers: Mapping[str, Any], *pieces: Any, tools: Any = (pay, spend)
) -> tuple[ai.AgentStream, list[AgentEvent]]:
    """Let a model call like this, answer what is asked by its label, and read to the end."""
    agent = ai.Agent(model=ai.scripted(in_turn(list(pieces), "done")), tools=tools)
    events: list[AgentEvent] = []
    async with agent.run(messages="go") as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, HookEvent) and event.status == "opened":
                answer = answers[event.label]
                if answer is None:
                    await ai.cancel_hook(event, reason="no more")
                else:
                    ai.resolve_hook(event, answer)
    return stream, events


def results(events: list[AgentEvent]) -> list[tuple[Any, bool]]:
    return [(each.content, each.is_error) for each in events if isinstance(each, ToolCallResult)]


def asked(events: list[AgentEvent]) -> list[HookEvent]:
    return [each for each in events if isinstance(each, HookEvent) and each.status == "opened"]


async def test_a_granted_call_is_carried_out() -> None:
    stream, events = await through({"approve_call_0": {"granted": True}}, call("pay", amount=5))

    assert paid == [5]
    assert results(events) == [("paid 5", False)]
    assert asked(events)[0].metadata == {"tool": "pay", "kwargs": {"amount": 5}}
    assert stream.output == "done"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"granted": False, "reason": "too dear"}, "Rejected: too dear"),
        ({"granted": False}, "Rejected: a person did not approve the call"),
    ],
)
async def test_one_that_is_not_granted_is_an_error_that_the_model_reads(
    answer: dict[str, Any], told: str
) -> None:
    stream, events = await through({"approve_call_0": answer}, call("pay", amount=5))

    assert paid == []
    assert results(events) == [(told, True)]
    assert stream.output == "done"


async def test_d6_a_cancelled_approval_leaves_its_call_one_result() -> None:
    stream, events = await through({"approve_call_0": None}, call("pay", amount=5))

    assert results(events) == [("Rejected: the approval was cancelled: no more", True)]
    assert stream.output == "done"


async def test_an_approval_may_change_the_arguments() -> None:
    answer = {"granted": True, "arguments": {"amount": 3}}

    _, events = await through({"approve_call_0": answer}, call("pay", amount=5))

    assert paid == [3]
    assert results(events) == [("paid 3", False)]


async def test_arguments_that_do_not_fit_the_tool_are_no_answer() -> None:
    agent = ai.Agent(model=ai.scripted(in_turn([call("pay", amount=5)], "done")), tools=[pay])
    async with agent.run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, HookEvent) and event.status == "opened":
                with pytest.raises(Exception, match="do not fit"):
                    ai.resolve_hook(event, {"granted": True, "arguments": {"amount": "much"}})
                ai.resolve_hook(event, {"granted": True})

    assert paid == [5]


@pytest.mark.parametrize(("amount", "questions"), [(7, 0), (700, 1)])
async def test_whether_to_ask_may_hang_on_the_arguments(amount: int, questions: int) -> None:
    _, events = await through({"approve_call_0": {"granted": True}}, call("spend", amount=amount))

    assert len(asked(events)) == questions
    assert paid == [amount]


@pytest.mark.parametrize("arguments", ['{"amount": "much"}', '{"amount": 1', "{}"])
async def test_40_to_42_nobody_is_asked_about_arguments_that_do_not_fit(arguments: str) -> None:
    stream, events = await through({}, call_with("pay", arguments))

    assert asked(events) == []
    assert [is_error for _, is_error in results(events)] == [True]
    assert stream.output == "done"


async def test_calls_of_one_id_are_asked_about_one_by_one() -> None:
    pieces = [
        call_with("pay", '{"amount": 1}', call_id="same"),
        call_with("pay", '{"amount": 2}', call_id="same"),
    ]
    agent = ai.Agent(model=ai.scripted(in_turn(pieces, "done")), tools=[pay])
    async with agent.run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, RunBlocked):
                first, *others = event.hooks
                ai.resolve_hook(first, {"granted": not others})
                for label in others:
                    ai.resolve_hook(label, {"granted": True})

    assert paid == [2]


async def test_79_the_run_is_blocked_between_question_and_answer() -> None:
    agent = ai.Agent(model=ai.scripted(in_turn([call("pay", amount=5)], "done")), tools=[pay])
    told: list[tuple[str, bool, int]] = []
    async with agent.run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, HookEvent | RunBlocked):
                told.append((type(event).__name__, stream.blocked, len(stream.deferred_hooks)))
            if isinstance(event, RunBlocked):
                assert event.hooks == ["approve_call_0"]
                ai.resolve_hook("approve_call_0", {"granted": True})

    assert told == [("HookEvent", False, 1), ("RunBlocked", True, 1), ("HookEvent", False, 0)]
    assert stream.output == "done"


async def test_80_a_busy_sibling_keeps_the_run_from_being_blocked() -> None:
    gate = asyncio.Event()

    @ai.tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    order: list[str] = []
    model = ai.scripted(in_turn([call("pay", amount=5), call("slow")], "done"))
    async with ai.Agent(model=model, tools=[pay, slow]).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, HookEvent | RunBlocked | ToolCallResult):
                order.append(type(event).__name__)
            if isinstance(event, HookEvent) and event.status == "opened":
                gate.set()
            if isinstance(event, RunBlocked):
                ai.resolve_hook("approve_call_0", {"granted": True})

    assert order == ["HookEvent", "ToolCallResult", "RunBlocked", "HookEvent", "ToolCallResult"]


async def test_81_each_answer_of_several_lets_the_run_be_blocked_anew() -> None:
    counts: list[int] = []
    model = ai.scripted(in_turn([call("pay", amount=1), call("pay", amount=2)], "done"))
    async with ai.Agent(model=model, tools=[pay]).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, RunBlocked):
                counts.append(len(event.hooks))
                ai.resolve_hook(event.hooks[0], {"granted": True})

    assert counts == [2, 1]
    assert sorted(paid) == [1, 2]


async def test_84_without_hooks_nothing_is_blocked() -> None:
    @ai.tool
    async def look() -> str:
        return "seen"

    _, events = await through({}, call("look"), tools=[look])

    assert not [event for event in events if isinstance(event, RunBlocked)]


async def test_85_a_reply_that_is_still_written_is_waited_for() -> None:
    done = asyncio.Event()
    order: list[str] = []
    model = ai.scripted(
        in_turn([call("pay", amount=1), ai.testing.until(done), ai.testing.text("…")], "done")
    )
    async with ai.Agent(model=model, tools=[pay]).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, HookEvent) and event.status == "opened":
                done.set()
            if event.type in {"hook", "turn.finished", "run.blocked"}:
                order.append(event.type)
            if isinstance(event, RunBlocked):
                ai.resolve_hook("approve_call_0", {"granted": True})

    assert order == ["hook", "turn.finished", "run.blocked", "hook", "turn.finished"]


async def test_d1_a_sibling_that_ends_before_the_reply_does_blocks_all_the_same() -> None:
    done = asyncio.Event()

    @ai.tool
    async def quick() -> str:
        return "quick"

    model = ai.scripted(
        in_turn([call("pay", amount=1), call("quick"), ai.testing.until(done)], "done")
    )
    blocked = 0
    async with ai.Agent(model=model, tools=[pay, quick]).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, ToolCallResult) and event.name == "quick":
                done.set()
            if isinstance(event, RunBlocked):
                blocked += 1
                ai.resolve_hook("approve_call_0", {"granted": True})

    assert blocked == 1


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_what_is_no_flag_and_no_function_is_refused(value: Any) -> None:
    with pytest.raises(SetupError, match="require_approval"):
        ai.tool(name="pay", require_approval=value)(pay.function)
