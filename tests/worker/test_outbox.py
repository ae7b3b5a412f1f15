"""What waits to be appended: swallowed once each, put together, packed, bounded."""

from collections import Counter
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from loops.events import (
    Custom,
    Event,
    Ping,
    Retry,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallResult,
)
from loops.wire import encode
from worker.journal import digest
from worker.outbox import EVENT_LIMIT, Outbox


def mark(event: Event) -> bytes:
    return digest(*encode(event))


def box(*published: Event) -> Outbox:
    return Outbox(Counter(mark(event) for event in published))


def taken(outbox: Outbox) -> list[dict[str, Any]]:
    count, events, *_ = outbox.take(0, [])
    told = orjson.loads(events)
    assert count == len(told)
    return told


def marks(packed: bytes) -> list[tuple[int, bytes]]:
    return [
        (int.from_bytes(packed[at : at + 2]), packed[at + 2 : at + 10])
        for at in range(0, len(packed), 10)
    ]


def test_yields_are_taken_in_their_order():
    outbox = box()
    for event in (TextStart(0, turn=1), TextDelta(0, "hi", turn=1), Custom("note", 1)):
        assert outbox.put_yield(event)

    assert taken(outbox) == [
        {"type": "text.started", "turn": 1, "data": {"block": 0}},
        {"type": "text.delta", "turn": 1, "data": {"block": 0, "text": "hi"}},
        {"type": "custom.note", "data": {"value": 1}},
    ]


def test_a_taken_outbox_is_empty():
    outbox = box()
    outbox.put_yield(Custom("note"))
    outbox.put_handed("turn:1.0")
    assert not outbox.is_empty
    assert outbox.size > 0

    outbox.take(0, [])

    assert outbox.is_empty
    assert outbox.size == 0


def test_what_stands_in_the_log_is_swallowed_once_each():
    note = Custom("note", 1)
    outbox = box(note, note)

    assert [outbox.put_yield(note) for _ in range(4)] == [False, False, True, True]
    assert len(taken(outbox)) == 2


def test_a_yield_is_known_again_by_type_and_data_whatever_its_turn():
    outbox = box(TextEnd(0, turn=1))

    assert not outbox.put_yield(TextEnd(0, turn=2))


def test_what_the_runtime_publishes_itself_and_a_ping_are_not_published_when_yielded():
    outbox = box()

    said = [StreamStart("m", turn=1), Retry(3), Ping()]

    assert [outbox.put_yield(event) for event in said] == [False, False, False]
    assert outbox.is_empty


def test_deltas_of_one_block_that_follow_each_other_share_an_event():
    outbox = box()
    for text in ("a", "b", "c"):
        outbox.put_yield(TextDelta(0, text, turn=1))

    count, events, packed, *_ = outbox.take(0, [])

    assert count == 1
    assert orjson.loads(events)[0]["data"] == {"block": 0, "text": "abc"}
    assert marks(packed) == [(0, mark(TextDelta(0, text))) for text in ("a", "b", "c")]


def test_deltas_of_other_blocks_turns_or_kinds_stay_apart():
    outbox = box()
    deltas = [
        TextDelta(0, "a", turn=1),
        TextDelta(1, "b", turn=1),
        TextDelta(1, "c", turn=2),
        Custom("note"),
        TextDelta(1, "d", turn=2),
    ]
    for event in deltas:
        outbox.put_yield(event)

    assert [event["data"].get("text") for event in taken(outbox)] == ["a", "b", "c", None, "d"]


def test_a_flush_between_two_deltas_keeps_them_apart():
    outbox = box()
    outbox.put_yield(TextDelta(0, "a"))
    first = taken(outbox)

    outbox.put_yield(TextDelta(0, "b"))

    assert [event["data"]["text"] for event in (*first, *taken(outbox))] == ["a", "b"]


PIECES = st.lists(st.tuples(st.integers(0, 1), st.text(min_size=1, max_size=3)), max_size=12)


@given(PIECES, st.integers(0, 12))
def test_a_pass_that_begins_anew_publishes_exactly_what_is_missing(
    pieces: list[tuple[int, str]], seen: int
):
    deltas = [TextDelta(block, text) for block, text in pieces]
    outbox = box(*deltas[:seen])

    is_new = [outbox.put_yield(delta) for delta in deltas]

    assert is_new.count(False) == min(seen, len(deltas))
    published = Counter(mark(delta) for delta in deltas[:seen])
    _, _, packed, *_ = outbox.take(0, [])
    published.update(found for _, found in marks(packed))
    assert published == Counter(mark(delta) for delta in deltas)


def test_digests_name_the_place_of_their_event_and_the_runtimes_own_have_none():
    outbox = box()
    outbox.put("turn.started", {"model": "m"}, turn=1, opens="turn:1")
    outbox.put_yield(TextStart(0, turn=1))
    outbox.put("tool.queued", {"call": "c"})
    outbox.put_yield(Custom("note"))

    count, _, packed, opened, first_opened, *_ = outbox.take(0, [])

    assert count == 4
    assert marks(packed) == [(1, mark(TextStart(0))), (3, mark(Custom("note")))]
    assert (opened, first_opened) == (1, "0 turn:1")


def test_a_flush_ends_with_hand_overs_and_the_sessions_new_messages():
    outbox = box()
    outbox.put_handed("turn:1.0")
    outbox.put_handed("turn:1.1")

    taken = outbox.take(3, [b"{}", b"[]"])

    assert taken == [0, b"[]", b"", 0, 2, "turn:1.0", "turn:1.1", 3, 2, b"{}", b"[]"]


def test_an_event_that_is_too_long_is_cut_with_a_marker_and_its_true_length():
    long = "ü" * (EVENT_LIMIT + 1)
    outbox = box()
    outbox.put_yield(ToolCallResult("turn:1.0", "call_0", "read", long))

    _, events, *_ = outbox.take(0, [])

    assert len(events) <= EVENT_LIMIT
    [event] = orjson.loads(events)
    assert event["data"]["call"] == "turn:1.0"
    assert event["data"]["cut"] == len(long)
    assert event["data"]["content"].startswith("üü")
    assert event["data"]["content"].endswith(f"… [cut: {len(long)} characters]")


def test_a_value_that_is_too_long_is_cut_as_its_json():
    rows = [{"row": number} for number in range(40_000)]
    outbox = box()
    outbox.put_yield(Custom("rows", rows))

    [event] = taken(outbox)

    assert event["data"]["value"].startswith('[{"row":0},{"row":1}')
    assert event["data"]["cut"] == len(orjson.dumps(rows))


@given(st.sampled_from(["\x01", "\U0001f600", "a", '"', "\u2028"]))
def test_no_event_is_longer_than_the_limit_whatever_its_characters(character: str):
    outbox = box()
    outbox.put_yield(Custom("long", character * (EVENT_LIMIT // 4)))
    outbox.put_yield(Custom("longer", character * EVENT_LIMIT))

    for event in taken(outbox):
        assert len(orjson.dumps(event)) <= EVENT_LIMIT


def test_text_is_never_cut_however_much_of_it_comes_at_once():
    outbox = box()
    text = "abcdefgh" * 100
    for _ in range(EVENT_LIMIT // 400):
        outbox.put_yield(TextDelta(0, text))

    events = taken(outbox)

    said = "".join(event["data"]["text"] for event in events)
    assert said == text * (EVENT_LIMIT // 400)
    assert max(len(orjson.dumps(event)) for event in events) <= EVENT_LIMIT


def test_one_long_text_becomes_several_events_and_is_known_again_as_one():
    long = TextDelta(0, "\x01" * EVENT_LIMIT, turn=1)
    outbox = box()
    outbox.put_yield(long)

    count, events, packed, *_ = outbox.take(0, [])

    told = orjson.loads(events)
    assert count == len(told) > 1
    assert "".join(event["data"]["text"] for event in told) == long.text
    assert max(len(orjson.dumps(event)) for event in told) <= EVENT_LIMIT
    assert marks(packed) == [(0, mark(long))]
    assert not box(long).put_yield(long)
