"""The journal's pure half: keys by what a model sees, and turns written and read again."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.events import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)
from loops.messages import Message, Messages, Usage
from loops.model import ModelRequest, ToolSpec
from worker.journal import (
    canonical,
    decode_turn,
    digest,
    encode_turn,
    request_hashes,
    short_hash,
)

USER = Message(role="user", content="hello")


def call_block(call_id: str, city: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": city}}


def result_block(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def history(*calls: dict[str, Any], results: list[dict[str, Any]]) -> tuple[Message, ...]:
    raw = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": list(calls)},
        {"role": "user", "content": results},
    ]
    return tuple(Messages.of(raw))


def request(*messages: Message, system: str = "be kind") -> ModelRequest:
    return ModelRequest("m", messages or (USER,), system=system)


BOTH = history(
    call_block("a", "Rome"),
    call_block("b", "Oslo"),
    results=[result_block("a", "hot"), result_block("b", "cold")],
)


def test_results_stand_by_their_call_in_whatever_order_they_came():
    other = history(
        call_block("a", "Rome"),
        call_block("b", "Oslo"),
        results=[result_block("b", "cold"), result_block("a", "hot")],
    )

    assert canonical(BOTH) == canonical(other)


def test_the_providers_ids_do_not_count():
    other = history(
        call_block("x", "Rome"),
        call_block("y", "Oslo"),
        results=[result_block("x", "hot"), result_block("y", "cold")],
    )

    assert canonical(BOTH) == canonical(other)


def test_results_that_change_places_are_another_history():
    other = history(
        call_block("a", "Rome"),
        call_block("b", "Oslo"),
        results=[result_block("a", "cold"), result_block("b", "hot")],
    )

    assert canonical(BOTH) != canonical(other)


def test_a_repeated_id_gives_each_result_a_place_of_its_own():
    same = history(
        call_block("a", "Rome"),
        call_block("a", "Oslo"),
        results=[result_block("a", "hot"), result_block("a", "cold")],
    )

    [_, _, (_, rows)] = canonical(same)

    assert [(row["call"], row["content"]) for row in rows] == [(0, "hot"), (1, "cold")]


def test_ids_and_usage_of_messages_do_not_count():
    told = [each.model_copy(update={"id": "m1", "usage": Usage(input_tokens=1)}) for each in BOTH]

    assert canonical(told) == canonical(BOTH)


@pytest.mark.parametrize(
    "other",
    [
        replace(request(), model="n"),
        replace(request(), system="be unkind"),
        replace(request(), max_tokens=10),
        replace(request(), params={"temperature": 0}),
        replace(request(), tools=(ToolSpec("t", "does", {}),)),
        request(Message(role="user", content="goodbye")),
        request(USER, Message(role="assistant", content="hm"), USER),
    ],
    ids=["model", "system", "max_tokens", "params", "tools", "message", "length"],
)
def test_whatever_the_provider_sees_makes_another_key(other: ModelRequest):
    assert request_hashes(other)[1] != request_hashes(request())[1]


def test_digits_of_the_system_prompt_are_masked_in_the_first_hash_alone():
    morning = request_hashes(request(system="it is 9:05 on day 1"))
    evening = request_hashes(request(system="it is 19:45 on day 12"))

    assert morning[0] == evening[0]
    assert morning[1] != evening[1]


def test_other_words_of_the_system_prompt_are_not_masked():
    assert request_hashes(request(system="a 1"))[0] != request_hashes(request(system="b 1"))[0]


def test_a_digest_tells_type_and_data_and_not_the_order_of_keys():
    assert digest("custom.a", {"x": 1, "y": 2}) == digest("custom.a", {"y": 2, "x": 1})
    assert digest("custom.a", {"x": 1}) != digest("custom.b", {"x": 1})
    assert digest("text.delta", {"block": 0, "text": "a"}) != digest(
        "text.delta", {"block": 1, "text": "a"}
    )
    assert len(digest("custom.a", {})) == 8


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.text(max_size=8))
def test_a_short_hash_tells_its_parts_apart(parts: list[str], more: str):
    assert short_hash(*parts) != short_hash(*parts, more)
    assert short_hash(*parts) == short_hash(*parts)


BLOCKS = st.integers(0, 3)
TEXTS = st.text(max_size=6)
EVENTS = st.lists(
    st.one_of(
        st.builds(TextStart, BLOCKS),
        st.builds(TextDelta, BLOCKS, TEXTS),
        st.builds(TextEnd, BLOCKS),
        st.builds(ReasoningStart, BLOCKS, st.none() | TEXTS),
        st.builds(ReasoningDelta, BLOCKS, TEXTS),
        st.builds(ReasoningEnd, BLOCKS, st.none() | TEXTS),
        st.builds(ToolStart, BLOCKS, TEXTS, TEXTS, TEXTS),
        st.builds(ToolDelta, BLOCKS, TEXTS),
        st.builds(ToolEnd, BLOCKS, TEXTS, TEXTS, TEXTS, TEXTS),
    ),
    max_size=20,
)
ENDS = st.builds(
    StreamEnd, st.none() | TEXTS, st.none() | st.builds(Usage, input_tokens=st.integers(0, 9))
)


@given(EVENTS, ENDS, st.integers(1, 50), st.booleans())
def test_a_turn_is_read_as_the_very_events_that_were_written(
    events: list[Any], end: StreamEnd, number: int, is_complete: bool
):
    whole = [StreamStart("m"), *events, end]

    turn = decode_turn(encode_turn(number, whole), is_complete=is_complete)

    assert list(turn.events) == whole
    assert (turn.number, turn.is_complete, turn.error) == (number, is_complete, None)


def test_deltas_of_a_block_share_a_row_and_stay_apart():
    deltas = [TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(1, "c"), TextDelta(0, "d")]

    rows = orjson.loads(encode_turn(1, deltas))["events"]

    assert [row[1:] for row in rows] == [[0, ["a", "b"]], [1, ["c"]], [0, ["d"]]]


def test_a_turn_keeps_the_error_that_reached_the_loop():
    turn = decode_turn(encode_turn(2, [], {"code": "overloaded"}), is_complete=True)

    assert turn.error == {"code": "overloaded"}
