import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.closing import close
from loops.history import inspect
from loops.kit import LLM, FileSessions, MemorySessions
from loops.kit.batch import NOT_BEGUN
from loops.kit.plain import said
from loops.kit.session import INTERRUPTED
from loops.kit.turn import Turn
from loops.tasks import Owner
from loops.testing import wait_until
from tests.kit.histories import says, user
from tests.kit.loop_talks import (
    BEAT,
    CALL,
    OTHER,
    PING,
    SlowStore,
    asking,
    calls,
    kept,
    leave,
    others,
    reopened,
    results,
    roles,
    talk,
    told,
)
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER

SPOKEN = [{"type": "text", "text": "Let me see."}, CALL, OTHER]
SUMMARY = "<summary>They like the sea.</summary>"


def script() -> ScriptedProvider:
    """Return a model that speaks, calls twice at once, calls once more, and answers."""
    return ScriptedProvider([SPOKEN, [{**CALL, "id": "c3"}], "Fine."])


EVENTS = 16
"""How many events the loop yields by the script."""


async def check(context: ai.Context) -> list[Raw]:
    """Check that the session is whole, and return what another run would tell the model."""
    assert others() == set()
    messages = await kept(context)
    told_again = (await reopened(context)).context()
    answered = [each["tool_use_id"] for each in results(told_again)]
    assert answered == [each["id"] for each in calls(messages)]
    assert inspect(said(told_again)) == []
    return messages


async def test_the_loop_yields_as_many_events_as_are_left_at() -> None:
    assert len(await told(asking(), script())) == EVENTS


@pytest.mark.parametrize("count", range(EVENTS + 1))
async def test_a_loop_that_is_closed_at_any_event_leaves_a_whole_session(count: int) -> None:
    context = asking()
    events = talk(context, script())

    for _ in range(count):
        await anext(events)
    await close(events)

    messages = await check(context)
    assert len(calls(messages)) == len(results(messages))


@pytest.mark.parametrize("count", range(EVENTS + 1))
async def test_a_loop_that_is_cancelled_at_any_event_leaves_a_whole_session(count: int) -> None:
    context = asking()
    owner = Owner()

    async def read() -> None:
        events = talk(context, script())
        for _ in range(count):
            await anext(events)
        task.cancel()
        async for _ in events:
            pass
        await asyncio.sleep(0)

    task = owner.start(read(), name="reader")
    await owner.join()

    assert task.cancelled()
    messages = await check(context)
    assert len(calls(messages)) == len(results(messages))


class Yielding(MemorySessions):
    """A store whose appends take a moment before they are made, and after."""

    async def append(self, session_id: str, index: int, messages: Sequence[Raw]) -> None:
        """Append it."""
        await asyncio.sleep(0)
        await super().append(session_id, index, messages)
        await asyncio.sleep(0)


async def cancelled_after(moments: int, context: ai.Context) -> bool:
    """Cancel a run of the script after so many moments; say whether it was still running."""
    owner = Owner()
    task = owner.start(told(context, script()), name="reader")
    for _ in range(moments):
        await asyncio.sleep(0)
    await owner.close()
    return task.cancelled()


async def test_a_loop_that_is_cancelled_at_any_moment_leaves_a_whole_session() -> None:
    lengths: list[int] = []
    is_running, moments = True, 1

    while is_running:
        context = asking(sessions=Yielding())
        is_running = await cancelled_after(moments, context)
        messages = await check(context)
        assert len(calls(messages)) == len(results(messages))
        lengths.append(len(messages))
        moments += 1

    assert len(lengths) > 30
    assert set(lengths) == {1, 2, 3, 5, 6}


async def cancelled_when(events: AsyncIterator[Any], condition: Callable[[], bool]) -> list[Any]:
    """Read the events in a task, cancel it when the condition holds, and return what was read."""
    read: list[Any] = []
    owner = Owner()

    async def reading() -> None:
        while True:
            read.append(await anext(events))

    task = owner.start(reading(), name="reader")
    await wait_until(condition, for_="the moment to cancel")
    await owner.close()
    assert task.cancelled()
    return read


class Held:
    """A provider that says something and then waits for ever."""

    model = "held"

    def __init__(self, *pieces: Any) -> None:
        self.is_waiting = False
        self.is_closed = False
        self._pieces = pieces

    async def stream(self, **_: Any) -> AsyncIterator[Any]:
        """Yield the pieces and wait."""
        try:
            for piece in self._pieces:
                yield piece
            self.is_waiting = True
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


async def test_what_was_said_of_a_cancelled_reply_is_kept_with_a_mark() -> None:
    context = asking()
    provider = Held("One, ", {"type": "thinking", "thinking": "hm"}, "two")

    await cancelled_when(talk(context, provider), lambda: provider.is_waiting)

    assert provider.is_closed
    messages = await check(context)
    assert messages[-1] == says("One, two\n\n[…]")


async def test_what_was_said_of_a_closed_reply_is_kept_with_a_mark() -> None:
    context = asking()
    provider = Held("One, ", "two")

    await leave(talk(context, provider), lambda event: event == "two")

    assert provider.is_closed
    assert (await check(context))[-1] == says("One, two\n\n[…]")


async def test_of_a_cancelled_reply_that_said_nothing_nothing_is_kept() -> None:
    context = asking()
    provider = Held()

    await cancelled_when(talk(context, provider), lambda: provider.is_waiting)

    assert roles(await check(context)) == ["user"]


@pytest.mark.parametrize("at", [2, 3, 4])
async def test_what_was_not_kept_yet_when_the_run_was_cancelled_is_kept(at: int) -> None:
    store = SlowStore(at)
    context = asking(sessions=store)

    await cancelled_when(talk(context, script()), lambda: store.count == at)

    messages = await check(context)
    assert len(messages) >= at
    assert "[…]" not in str(messages)


async def test_a_reply_is_kept_once_when_its_end_is_waited_for() -> None:
    context = asking()
    provider = Held("Fine.", Turn([{"type": "text", "text": "Fine."}], "end_turn"))

    await told(context, provider)

    assert await check(context) == [user("How is it?"), says("Fine.")]


async def test_calls_that_were_begun_are_told_apart_from_those_that_were_not() -> None:
    context = asking()
    begun = asyncio.Event()

    async def forever(inp: dict[str, Any]) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    handlers = {"weather": forever}
    await cancelled_when(talk(context, script(), handlers=handlers), begun.is_set)

    assert {each["content"] for each in results(await check(context))} == {INTERRUPTED}


async def test_calls_whose_steps_were_just_announced_were_not_begun() -> None:
    context = asking()

    await leave(talk(context, script()), lambda event: "step" in event and event["step"] == "Rome")

    answers = results(await check(context))
    assert [each["content"] for each in answers] == [NOT_BEGUN] * 2
    assert all(each["is_error"] for each in answers)


async def test_of_two_calls_the_one_that_has_ended_has_its_own_result() -> None:
    context = asking()
    ended: list[str] = []

    async def one_of_two(inp: dict[str, Any]) -> str:
        if inp["city"] == "Oslo":
            await asyncio.Event().wait()
        ended.append(inp["city"])
        return "calm"

    events = talk(context, script(), handlers={"weather": one_of_two}, heartbeat=BEAT)
    await cancelled_when(events, lambda: bool(ended))

    first, second = results(await check(context))
    assert first == {"type": "tool_result", "tool_use_id": "c1", "content": "calm"}
    assert (second["content"], second["is_error"]) == (INTERRUPTED, True)


async def test_results_are_kept_before_their_reader_is_shown_any() -> None:
    context = asking()

    await leave(talk(context, script()), lambda event: event == "sunny in Rome")

    answers = results(await check(context))
    assert [each["content"] for each in answers] == ["sunny in Rome", "sunny in Oslo"]


async def test_a_reader_that_leaves_at_a_sign_of_life_leaves_calls_answered() -> None:
    context = asking()

    async def forever(inp: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "never"

    events = talk(context, script(), handlers={"weather": forever}, heartbeat=BEAT)
    await leave(events, lambda event: event == PING)

    assert [each["content"] for each in results(await check(context))] == [INTERRUPTED] * 2


async def test_a_tool_that_will_not_end_is_not_waited_for_for_ever() -> None:
    context = asking()
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def stubborn(inp: dict[str, Any]) -> str:
        begun.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    provider = ScriptedProvider([[CALL], "Fine."])
    await cancelled_when(talk(context, provider, handlers={"weather": stubborn}), begun.is_set)

    [result] = results(await kept(context))
    assert result["content"] == INTERRUPTED
    may_end.set()
    await wait_until(lambda: others() == set(), for_="the tool to end")


async def test_a_summary_is_left_with_the_run() -> None:
    talked = [user("word " * 400), says("word " * 400)] * 6
    context = asking(*talked, user("And now?"))
    is_asked = asyncio.Event()

    async def forever(asked: dict[str, Any]) -> str:
        is_asked.set()
        await asyncio.Event().wait()
        return SUMMARY

    events = talk(context, ScriptedProvider([forever]), context_window=8_000, max_tokens=1_000)
    await cancelled_when(events, is_asked.is_set)

    assert len(await check(context)) == 13
    assert (await reopened(context)).summary is None


async def test_a_wait_for_a_busy_model_is_left_with_the_run() -> None:
    context = ai.Context(messages=["How is it?"], chat_id="busy", sessions=asking().sessions)
    provider = ScriptedProvider([ConnectionError("gone")])

    await cancelled_when(talk(context, provider), lambda: len(others()) == 2)

    assert roles(await check(context)) == ["user"]


async def test_the_next_run_goes_on_from_a_run_that_was_left() -> None:
    context = asking()
    await leave(talk(context, script()), lambda event: "step" in event and event["step"] == "Rome")
    provider = ScriptedProvider(["Sorry, again: sunny."])

    await told(asking("And?", sessions=context.sessions), provider)

    [asked] = provider.asked
    assert roles(asked["messages"]) == ["user", "assistant", "user", "user"]
    assert [each["content"] for each in results(asked["messages"])] == [NOT_BEGUN] * 2


async def test_an_agent_that_is_closed_closes_its_loop() -> None:
    context = asking()
    provider = Held("One, ")
    llm = LLM().model(provider).tools([WEATHER])

    await leave(llm.run(context=context), lambda event: event == "One, ")

    assert provider.is_closed
    assert (await check(context))[-1] == says("One, \n\n[…]")


async def test_files_have_all_of_a_run_that_was_cancelled(tmp_path: Any) -> None:
    context = asking(sessions=FileSessions(tmp_path))
    provider = Held("One, ")

    await cancelled_when(talk(context, provider), lambda: provider.is_waiting)

    assert (await check(context))[-1] == says("One, \n\n[…]")
