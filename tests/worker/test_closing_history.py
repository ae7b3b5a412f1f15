"""What a run leaves in its session when it ends in the middle of a turn keeps the pairing law."""

from typing import Any, cast

import pytest

from loops.events import (
    ModelEvent,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolEnd,
    ToolStart,
)
from loops.history import inspect
from loops.messages import Message, Messages, ToolResult
from worker.closing_history import CUT_OFF, closing_messages
from worker.open_turn import DurableTurn

USER = {"role": "user", "content": "go"}
TEXT = [StreamStart("m"), TextStart(0), TextDelta(0, "I will"), TextEnd(0)]


def called(block: int) -> list[ModelEvent]:
    return [
        ToolStart(block, f"call_{block}", "mail"),
        ToolEnd(block, f"call_{block}", "mail", "{}", f"turn:1.{block}"),
    ]


def turn_of(*events: ModelEvent, history_length: int = 1) -> DurableTurn:
    turn = DurableTurn(cast("Any", None), "turn:1", 1, asked=cast("Any", None), recorded=None)
    turn._given.extend(events)
    turn.history_length = history_length
    return turn


def nothing(key: str) -> ToolResult | None:
    return None


def closed(history: Messages, turn: DurableTurn | None, **results: str) -> list[Message]:
    def result_of(key: str) -> ToolResult | None:
        block = key.rpartition(".")[2]
        text = results.get(f"call_{block}")
        return None if text is None else ToolResult(key, f"call_{block}", "mail", text)

    closing = closing_messages(history, turn, result_of)
    whole = Messages([*history, *closing])
    assert [issue for issue in inspect(whole) if issue.kind != "empty_text"] == []
    return closing


def test_a_run_that_never_asked_leaves_nothing():
    assert closed(Messages.of([USER]), None) == []


def test_a_turn_that_gave_nothing_leaves_nothing():
    assert closed(Messages.of([USER]), turn_of(StreamStart("m"))) == []


def test_a_reply_is_left_as_far_as_it_came():
    [reply] = closed(Messages.of([USER]), turn_of(*TEXT[:-1]))

    assert (reply.role, reply.text) == ("assistant", "I will")


def test_a_call_without_a_result_may_or_may_not_have_happened():
    reply, answer = closed(Messages.of([USER]), turn_of(*TEXT, *called(1)))

    assert [call.id for call in reply.tool_calls] == ["call_1"]
    [result] = answer.tool_results
    assert (result.tool_use_id, result.content, result.is_error) == ("call_1", CUT_OFF, True)


def test_a_call_with_a_result_keeps_it():
    turn = turn_of(*TEXT, *called(1), *called(2))

    _, answer = closed(Messages.of([USER]), turn, call_2="sent")

    told = [(each.tool_use_id, each.content, each.is_error) for each in answer.tool_results]
    assert told == [("call_1", CUT_OFF, True), ("call_2", "sent", False)]


def test_a_call_whose_block_is_not_closed_is_no_part_of_the_history():
    [reply] = closed(Messages.of([USER]), turn_of(*TEXT, called(1)[0]))

    assert reply.tool_calls == []


def test_a_reply_that_the_loop_has_added_is_answered_and_not_added_again():
    reply = {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "call_0", "name": "mail", "input": {}, "call": "turn:1.0"}
        ],
    }
    history = Messages.of([USER, reply])

    [answer] = closed(history, turn_of(*called(0)), call_0="sent")

    assert [result.content for result in answer.tool_results] == ["sent"]


@pytest.mark.parametrize("end", [(), (StreamEnd("end_turn"),)])
def test_a_history_that_has_gone_on_since_the_turn_is_left_alone(end: tuple[ModelEvent, ...]):
    history = Messages.of([USER, {"role": "assistant", "content": "done"}, USER])

    assert closed(history, turn_of(*TEXT, *end)) == []


def test_an_answer_of_the_loops_own_that_calls_nothing_is_whole():
    history = Messages.of([USER, {"role": "assistant", "content": "done"}])

    assert closed(history, turn_of(*TEXT)) == []
