import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.errors import ContextTooLong, InvalidRequest
from loops.history import inspect
from loops.kit import LLM
from loops.kit.compact import CONTINUED, DROPPED
from loops.kit.estimate import tokens_of
from loops.kit.folding import SUMMARIZING
from loops.kit.options import trigger
from loops.kit.plain import said, to_message
from loops.kit.stubs import OLD_RESULT
from loops.kit.summing import ASK
from loops.kit.turn import Turn
from tests.kit.histories import answers, asks, says, user
from tests.kit.loop_talks import (
    BEAT,
    CALL,
    PING,
    PRICE,
    Patient,
    asking,
    callouts,
    kept,
    logged,
    of,
    reopened,
    roles,
    texts,
    told,
    told_until_it_fails,
)
from tests.kit.providers import ScriptedProvider, turn_of

WORDS = "word " * 400
"""500 tokens."""

SUMMARY = "<analysis>now</analysis><summary>They like the sea.</summary>"


def is_summary(asked: dict[str, Any]) -> bool:
    """Say whether the model is asked to sum up."""
    return ASK in str(asked["messages"][-1]["content"])


class Narrow:
    """A model that refuses what is longer than its window, and sums up what it is asked to."""

    model = "narrow"

    def __init__(self, window: int, *summaries: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self._window = window
        self._summaries = iter(summaries)

    async def stream(self, **asked: Any) -> Any:
        """Answer, if it fits."""
        self.asked.append({**asked, "messages": list(asked["messages"])})
        sent = tokens_of(asked["messages"])
        if sent > self._window:
            raise RuntimeError(f"prompt is too long: {sent} tokens > {self._window} maximum")
        turn = turn_of(next(self._summaries, SUMMARY) if is_summary(asked) else "The answer.")
        yield turn.text
        yield turn


def long_talk(count: int) -> list[Raw]:
    """Return a talk of so many messages, of 500 tokens each; the last one is asked now."""
    talk = [user(f"{at} {WORDS}") if at % 2 == 0 else says(f"{at} {WORDS}") for at in range(count)]
    return [*talk[: count - 1], user("And now?")]


def compactions(events: Sequence[Any]) -> list[tuple[int, str, bool]]:
    """Return tier, reason and outcome of each compaction that a reader was told of."""
    told_of = [each for each in of(events, "ui") if each["action"] == "compacted"]
    return [(each["tier"], each["reason"], each["ok"]) for each in told_of]


def is_valid(asked: dict[str, Any]) -> bool:
    """Say whether a request keeps the pairing law."""
    return inspect(said(asked["messages"])) == []


async def test_what_comes_near_the_window_is_summed_up_before_the_next_question() -> None:
    context = asking(*long_talk(13))
    provider = Narrow(8_000)

    events = await told(context, provider, context_window=8_000, max_tokens=1_000)

    assert [is_summary(each) for each in provider.asked] == [True, False]
    assert compactions(events) == [(2, "trigger", True)]
    assert [each["step"] for each in of(events, "step")] == [SUMMARIZING]
    assert texts(events) == "The answer."
    first = provider.asked[1]["messages"][0]
    assert first["content"].startswith(CONTINUED)
    assert "They like the sea." in first["content"]
    assert "now" not in first["content"]


async def test_a_short_talk_is_left_alone() -> None:
    context = asking(*long_talk(13))
    provider = Narrow(1_000_000)

    events = await told(context, provider)

    assert compactions(events) == []
    assert len(provider.asked[0]["messages"]) == 13
    assert roles(provider.asked[0]["messages"]) == ["user", "assistant"] * 6 + ["user"]


async def test_a_run_that_ends_near_the_window_is_summed_up_at_its_end() -> None:
    context = asking(*long_talk(9))
    last = Turn([{"type": "text", "text": "The answer."}], "end_turn", input=7_000, output=5)
    provider = ScriptedProvider([last, SUMMARY])

    events = await told(context, provider, context_window=8_000, max_tokens=1_000)

    assert compactions(events) == [(2, "trigger", True)]
    assert callouts(events) == []
    told_of = of(events, "ui")[-1]
    assert told_of["tokens"] == 7_005


async def test_the_whole_talk_is_kept_and_the_next_run_begins_with_the_summary() -> None:
    context = asking(*long_talk(13))
    await told(context, Narrow(8_000), context_window=8_000, max_tokens=1_000)

    window = await context.sessions.load('[null,"chat"]')
    again = asking("More?", sessions=context.sessions)
    provider = Narrow(8_000)
    await told(again, provider, context_window=8_000, max_tokens=1_000)

    assert window.length == 14
    assert window.marker["first_kept"] > 0
    assert window.marker["summary"].startswith(CONTINUED)
    [asked] = provider.asked
    assert "They like the sea." in asked["messages"][0]["content"]
    assert asked["messages"][-1]["content"] == "More?"


async def test_old_results_are_cleared_before_anything_is_summed_up() -> None:
    rounds = [each for at in range(5) for each in _round(at, "x" * 4_000)]
    newest = [user("Go on."), *_round(5, "x" * 4_000)]
    context = asking(user("Look."), *rounds, *newest, user("And now?"))
    provider = Narrow(8_000)

    events = await told(context, provider, context_window=8_000, max_tokens=1_000)

    assert compactions(events) == [(1, "trigger", True)]
    [asked] = provider.asked
    shown = [each["content"][0]["content"] for each in asked["messages"] if _is_answer(each)]
    assert shown[0] == OLD_RESULT
    assert shown[-1] == "x" * 4_000
    assert (await reopened(context)).summary is None


def _round(at: int, content: str) -> list[Raw]:
    return [asks(f"c{at}"), answers(f"c{at}", content=content)]


def _is_answer(message: Raw) -> bool:
    return isinstance(message["content"], list) and message["content"][0]["type"] == "tool_result"


async def test_after_a_long_pause_old_results_are_cleared_at_once() -> None:
    events = await _after_a_pause(timedelta(minutes=120))

    assert compactions(events) == [(1, "cold", True)]


async def test_after_a_short_pause_nothing_is_cleared() -> None:
    assert compactions(await _after_a_pause(timedelta(minutes=1))) == []


async def _after_a_pause(pause: timedelta) -> list[Any]:
    """Return what a reader is shown of a run that comes so long after the one before it."""
    rounds = [each for at in range(6) for each in _round(at, "x" * 3_000)]
    answered = says("Fine.", usage={"at": (datetime.now(UTC) - pause).isoformat()})
    context = asking("And now?")
    messages = [to_message(each).stored() for each in (user("Look."), *rounds, answered)]
    await context.sessions.append('[null,"chat"]', 0, messages)
    return await told(context, Narrow(10_000), context_window=10_000)


async def test_a_talk_that_the_model_has_no_room_for_is_summed_up_once() -> None:
    context = asking(*long_talk(9))
    provider = Narrow(3_000)

    events = await told(context, provider)

    assert [is_summary(each) for each in provider.asked] == [False, True, False]
    assert compactions(events) == [(2, "overflow", True)]
    assert texts(events) == "The answer."
    assert all(is_valid(each) for each in provider.asked)


async def test_the_window_that_a_refusal_names_is_known_to_later_runs() -> None:
    context = asking(*long_talk(9))
    await told(context, Narrow(3_000))

    again = asking(WORDS * 2, sessions=context.sessions)
    provider = Narrow(3_000)
    await told(again, provider)

    assert (await reopened(context)).limit == 3_000
    assert [is_summary(each) for each in provider.asked] == [True, False]
    assert all(tokens_of(each["messages"]) <= 3_000 for each in provider.asked)


async def test_what_does_not_fit_after_one_summary_is_summed_up_shorter() -> None:
    before = [user(WORDS * 6), says("Go on."), user(WORDS * 10), says(WORDS)]
    context = asking(*before, user("And now?"))
    provider = Narrow(8_000, f"<summary>{WORDS * 5}</summary>", SUMMARY)

    events = await told(context, provider)

    assert compactions(events) == [(2, "overflow", True)] * 2
    assert texts(events) == "The answer."


async def test_a_second_refusal_is_the_runs_failure() -> None:
    context = asking(*long_talk(9))
    too_long = RuntimeError("prompt is too long: 9000 tokens > 8000 maximum")
    provider = ScriptedProvider([too_long, SUMMARY, too_long])

    _, error = await told_until_it_fails(context, provider)

    assert isinstance(error, ContextTooLong)
    assert len(provider.asked) == 3
    assert error.limit == 8_000


async def test_what_nothing_makes_shorter_is_a_failure_that_says_so() -> None:
    context = asking(WORDS * 20)
    provider = Narrow(3_000)

    _, error = await told_until_it_fails(context, provider)

    assert isinstance(error, ContextTooLong)
    assert "are too long" in str(error)
    assert roles(await kept(context)) == ["user"]


async def test_a_reply_without_room_is_not_kept_and_asked_for_again() -> None:
    context = asking(*long_talk(9))
    without_room = Turn(
        [{"type": "text", "text": "The be"}], "model_context_window_exceeded", input=9, output=2
    )
    provider = ScriptedProvider([without_room, SUMMARY, "The answer."])

    events = await told(context, provider)

    assert compactions(events) == [(2, "overflow", True)]
    assert "The be" not in str(await kept(context))
    assert (await kept(context))[-1]["content"][0]["text"] == "The answer."


async def test_a_summary_that_fails_is_told_and_the_run_goes_on() -> None:
    context = asking(*long_talk(13))
    provider = ScriptedProvider([InvalidRequest("no"), "The answer."])

    events = await told(context, provider, context_window=8_000, max_tokens=1_000)

    assert compactions(events) == [(2, "trigger", False)]
    assert callouts(events)[0].startswith("Earlier messages could not be summarized")
    assert texts(events) == "The answer."
    assert DROPPED in provider.asked[1]["messages"][0]["content"]
    assert (await kept(context))[-1]["content"][0]["text"] == "The answer."


@pytest.mark.parametrize("window", [1, 2_000, 8_000, 32_000, 38_000, 200_000, 1_000_000])
@pytest.mark.parametrize("max_tokens", [1, 8_192, 64_000])
def test_whatever_the_window_there_is_room_before_it_is_full(window: int, max_tokens: int) -> None:
    place = trigger(window, max_tokens)

    assert 1 <= place <= max(1, window * 7 // 10)
    assert place >= window // 4


async def test_a_talk_in_a_small_window_is_not_summed_up_before_each_question() -> None:
    context = asking(user("One."), says("Two."), user("Three."))
    provider = ScriptedProvider([[CALL], [{**CALL, "id": "c2"}], "The answer."])

    events = await told(context, provider, context_window=8_000)

    assert compactions(events) == []
    assert len(provider.asked) == 3


async def test_a_talk_in_a_small_window_can_be_summed_up() -> None:
    context = asking(*long_talk(9))
    provider = Narrow(4_000)

    events = await told(context, provider, context_window=4_000)

    assert compactions(events) == [(2, "trigger", True)]
    assert texts(events) == "The answer."


async def test_the_summary_is_asked_with_all_that_the_loop_asks_with() -> None:
    context = asking(*long_talk(13))
    provider = Narrow(8_000)

    await told(context, provider, context_window=8_000, max_tokens=1_000, system="Be kind.")

    summary, question = provider.asked
    for name in ("system", "tools", "thinking"):
        assert summary[name] == question[name]
    assert summary["max_tokens"] == 1_000


async def test_signs_of_life_come_while_a_summary_is_written() -> None:
    async def slowly(asked: dict[str, Any]) -> str:
        await asyncio.sleep(BEAT.total_seconds() * 4)
        return SUMMARY

    provider = ScriptedProvider([slowly, "The answer."])
    context = asking(*long_talk(13))

    events = await told(context, provider, context_window=8_000, max_tokens=1_000, heartbeat=BEAT)

    place = next(at for at, each in enumerate(events) if each == of(events, "ui")[0])
    assert PING in events[:place]


async def test_what_a_summary_costs_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "loopmill.kit")
    llm = LLM().model(ScriptedProvider([SUMMARY, "The answer."])).price(**PRICE)
    app = ai.App(agents={"chat": llm.context(8_000).max_tokens(1_000)})

    async with app.start("chat", long_talk(13)) as stream:
        _ = [event async for event in stream]

    rows = logged(caplog, "usage")
    assert [row.get("compact", False) for row in rows] == [True, False]
    assert [row["cost"] for row in rows] == ["0.000060"] * 2
    assert stream.usage.cost == pytest.approx(0.000_120)
    [row] = logged(caplog, "compaction")
    assert (row["tier"], row["ok"]) == (2, True)
    assert row["left"] < row["tokens"]


async def test_talks_in_other_scripts_are_summed_up_in_time() -> None:
    context: Patient = asking(
        *[user("中文" * 250) if at % 2 == 0 else says("中文" * 250) for at in range(12)],
        user("And now?"),
    )
    provider = Narrow(8_000)

    events = await told(context, provider, context_window=8_000, max_tokens=1_000)

    assert compactions(events) == [(2, "trigger", True)]


async def test_a_reply_without_room_is_void_before_it_is_asked_again() -> None:
    context = asking(*(f"{number}: {'x' * 400}" for number in range(6)), "now")
    half = Turn([{"type": "text", "text": "half"}], "model_context_window_exceeded", output=1)
    provider = ScriptedProvider([half, "<summary>s</summary>", "whole"])

    shown = await told(context, provider)

    assert [each["reason"] for each in of(shown, "reset")] == ["there was no room for the reply"]
    assert "half" not in str(await kept(context))
