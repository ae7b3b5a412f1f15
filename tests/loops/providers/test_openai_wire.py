"""Chat Completions, read: what servers out there send, in any pieces."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import Overloaded, ProviderError, RateLimited, Refused, Unavailable
from loops.fold import fold
from loops.messages import Usage
from loops.providers.openai_wire import OpenAIReader
from loops.reply import ModelEvent, StreamEnd, StreamStart, TextDelta, ToolEnd, ToolStart
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.anthropic_wires import cut
from tests.loops.providers.anything import JSON
from tests.loops.providers.openai_wires import call

PLACES = st.lists(st.integers(0, 100_000), max_size=30)

RICH = wires.reply(
    wires.chunk({"reasoning_content": "let me see… "}),
    wires.said("I ", "löok 😀\u2028"),
    wires.calls(
        call(0, "a", "look", '{"pla'),
        call(1, "b", "look", ""),
        call(0, None, None, 'ce":1}'),
        call(1, None, None, '{"place":2}'),
    ),
    reason="tool_calls",
)


def read(*chunks: bytes) -> tuple[list[ModelEvent], OpenAIReader]:
    reader = OpenAIReader("openai/x")
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close(), reader


def called(*parts: bytes, reason: str | None = "tool_calls") -> list[tuple[str, str, str]]:
    events, _ = read(wires.reply(*parts, reason=reason))
    return [(each.id, each.name, each.arguments) for each in events if isinstance(each, ToolEnd)]


def end(*chunks: bytes) -> StreamEnd:
    event = read(*chunks)[0][-1]
    assert isinstance(event, StreamEnd)
    return event


@given(places=PLACES)
def test_the_same_bytes_in_any_pieces_are_the_same_events(places: list[int]) -> None:
    assert read(*cut(RICH, places))[0] == read(RICH)[0]


@given(length=st.integers(0, len(RICH) - 1))
def test_a_reply_that_breaks_off_before_its_reason_is_not_over_and_has_no_call(length: int) -> None:
    events, reader = read(RICH[:length])
    told_reason = b'"finish_reason":"tool_calls"' in RICH[:length].rpartition(b"\n\n")[0]

    assert reader.is_over is told_reason
    assert any(isinstance(each, ToolEnd) for each in events) is told_reason


def test_a_reply_is_its_blocks_in_order() -> None:
    events, _ = read(RICH)

    assert events[0] == StreamStart(model="gpt-x")
    assert [block.type for block in fold(events).content] == ["thinking", "text", *["tool_use"] * 2]
    assert [each.input for each in fold(events).tool_calls] == [{"place": 1}, {"place": 2}]
    assert end(RICH) == StreamEnd(
        stop_reason="tool_use", usage=Usage(input_tokens=10, output_tokens=5)
    )


TWO = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize(
    "deltas",
    [
        [call(0, "a", "f", '{"x":1}'), call(1, "b", "g", '{"y":2}')],
        [call(0, "a", "f", '{"x":1}'), call(0, "b", "g", '{"y":2}')],
        [call(None, "a", "f", '{"x":1}'), call(None, "b", "g", '{"y":2}')],
        [call("0", "a", "f", '{"x":1}'), call("1", "b", "g", '{"y":2}')],
        [call(0, "a", "f", '{"x":1}'), call(2, "b", "g", '{"y":2}')],
        [call(1, "a", "f", '{"x":1}'), call(0, "b", "g", '{"y":2}')],
        [call(0, "a", "f", '{"x'), call(0, "a", None, '":1}'), call(1, "b", "g", '{"y":2}')],
        [call(0, "a", "f", '{"x'), call(0, "", None, '":1}'), call(1, "b", "g", '{"y":2}')],
        [call(0, "a", "f"), call(0, None, "f", '{"x":1}'), call(1, "b", "g", '{"y":2}')],
        [call(0, "a", "f", '{"x'), call(1, "b", "g", '{"y'), call(0, None, None, '":1}'),
         call(1, None, None, '":2}')],
        [call(0, None, "f", '{"x":1}'), call(0, "a"), call(1, "b", "g", '{"y":2}')],
        [call(None, "a", "f", '{"x'), call(None, None, None, '":1}'), call(None, "b", "g", '{"y'),
         call(None, None, None, '":2}')],
        [call(0, "a", "f", {"x": 1}), call(1, "b", "g", {"y": 2})],
        [call(0, "a", "f", '"{\\"x\\":1}"'), call(1, "b", "g", '{"y":2}')],
    ],
    ids=["right", "all zero", "no index", "index as text", "a gap", "descending",
         "id in each delta", "id empty later", "name in each delta", "by turns", "id comes late",
         "no index, growing", "an object", "encoded twice"],
)  # fmt: skip
def test_two_calls_are_two_whatever_marks_them(deltas: list[Any]) -> None:
    assert called(wires.calls(*deltas)) == TWO


def test_calls_without_ids_are_told_apart() -> None:
    one, two = call(None, None, "f", '{"x":1}'), call(None, None, "g", '{"y":2}')

    assert called(wires.calls(one, two)) == [("", "f", '{"x":1}'), ("", "g", '{"y":2}')]


F, G = ("f", '{"a":1}'), ("g", '{"b":2}')


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ([call(0, "x", *F), call(1, "x", *G)], [("x", *F), ("x", *G)]),
        ([call(0, "", *F), call(0, "", *G)], [("", *F), ("", *G)]),
        ([call(0, None, *F), call(0, "b", *G)], [("", *F), ("b", *G)]),
        ([call(0, None, *F), call(1, None, *G), call(0, "a"), call(1, "b")],
         [("a", *F), ("b", *G)]),
        ([call(None, None, *F), call(None, None, "f", "")], [("", *F)]),
        ([call(0, "x", None, F[1]), call(0, None, "f")], [("x", *F)]),
        ([call("9" * 5000, "x", *F)], [("x", *F)]),
    ],
    ids=["one id for two", "empty ids", "a new id after none", "late ids by turns",
         "a name again at the end", "a late name", "an endless index"],
)  # fmt: skip
def test_calls_that_are_marked_badly_are_told_apart(deltas: list[Any], told: list[Any]) -> None:
    assert called(wires.calls(*deltas)) == told


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_reason_that_is_a_failure_is_one(reason: str) -> None:
    with pytest.raises(Unavailable):
        read(wires.reply(wires.calls(call(0, "a", "f", "{}")), reason=reason))


def test_a_call_that_was_cut_before_its_arguments_is_not_one_without_any() -> None:
    assert called(wires.calls(call(0, "a", "f")), reason="length") == [("a", "f", "{")]


def test_what_came_before_a_failure_is_told_first() -> None:
    reader, seen = OpenAIReader("openai/x"), list[ModelEvent]()

    with pytest.raises(Unavailable):
        seen.extend(reader.feed(wires.said("a") + wires.data({"error": "broke"})))

    assert fold(seen).text == "a"


def test_an_empty_refusal_is_none() -> None:
    assert fold(read(wires.reply(wires.chunk({"content": "a", "refusal": ""})))[0]).text == "a"


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (["\\ud83d", "\\ude00"], ["😀"]),
        (["a\\ud83d", "\\ude00b"], ["a", "😀b"]),
        (["\\ud83d\\ude00\\ud83d", "\\ude00"], ["😀", "😀"]),
        (["a\\ud83d", "b"], ["a", "\ufffdb"]),
        (["a\\ud83d"], ["a", "\ufffd"]),
        (["\\ude00"], ["\ufffd"]),
    ],
    ids=["two halves", "within text", "after a whole one", "never met", "at the end", "the second"],
)
def test_halves_of_a_character_are_put_together(pieces: list[str], told: list[str]) -> None:
    chunks = [b'{"choices":[{"delta":{"content":"%b"}}]}' % each.encode() for each in pieces]

    events, _ = read(wires.reply(*map(wires.data, chunks)))

    assert [each.text for each in events if isinstance(each, TextDelta)] == told
    assert fold(events).text == "".join(told)


def test_halves_of_different_blocks_stay_apart() -> None:
    first = wires.chunk({"reasoning": "x"}).replace(b'"x"', b'"\\ud83d"')
    second = wires.chunk({"content": "x"}).replace(b'"x"', b'"\\ude00"')

    message = fold(read(wires.reply(first, second))[0])

    assert [block.raw().get("thinking", message.text) for block in message.content] == [
        "\ufffd"
    ] * 2


def test_arguments_that_nobody_could_read_are_no_call_without_any() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    told = json.dumps({"choices": [{"delta": {"tool_calls": [call(0, "a", "f", deep)]}}]})

    assert called(wires.data(told.encode())) == [("a", "f", "{")]


def test_a_name_may_come_in_pieces() -> None:
    assert called(
        wires.calls(call(0, "a", "lo"), call(0, None, "ok"), call(0, None, None, "{}"))
    ) == [("a", "look", "{}")]


@pytest.mark.parametrize("arguments", [None, "", "null"])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert called(wires.calls(call(0, "a", "f", arguments))) == [("a", "f", "{}")]


def test_arguments_that_are_no_json_stay_as_they_came() -> None:
    assert called(wires.calls(call(0, "a", "f", "{x:1}"))) == [("a", "f", "{x:1}")]


def test_a_call_of_the_first_protocol_is_a_call() -> None:
    deltas = [{"name": "f", "arguments": '{"x"'}, {"arguments": ":1}"}]
    parts = [wires.chunk({"function_call": delta}) for delta in deltas]

    assert called(*parts, reason="function_call") == [("", "f", '{"x":1}')]


@pytest.mark.parametrize(
    ("reason", "with_call", "told"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_use"),
        ("tool_calls", True, "tool_use"),
        ("tool_calls", False, "end_turn"),
        ("length", True, "max_tokens"),
        ("length", False, "max_tokens"),
        (None, False, "end_turn"),
        (None, True, "tool_use"),
        ("of_next_year", False, "of_next_year"),
    ],
)
def test_why_a_reply_ended(reason: str | None, with_call: bool, told: str) -> None:
    parts = [wires.calls(call(0, "a", "f", '{"x'))] if with_call else [wires.said("a")]

    assert end(wires.reply(*parts, reason=reason)).stop_reason == told


@pytest.mark.parametrize(
    "last",
    [b"", wires.usage(), wires.usage() + wires.DONE, wires.DONE + wires.said("more"),
     b"data: [DONE]"],
    ids=["nothing", "only usage", "all", "more after the end", "half of the end"],
)  # fmt: skip
def test_a_reply_with_a_reason_is_whole_whatever_comes_then(last: bytes) -> None:
    events, reader = read(wires.said("a"), wires.chunk(reason="stop"), last)

    assert reader.is_over
    assert fold(events).text == "a"
    assert isinstance(events[-1], StreamEnd)


def test_a_reply_may_end_without_a_reason_by_its_end() -> None:
    assert end(wires.said("a"), wires.DONE).stop_reason == "end_turn"


def test_odd_chunks_do_no_harm() -> None:
    odd = [
        wires.data({"choices": []}),
        wires.data({"choices": None}),
        wires.data({"choices": [{"index": 0, "delta": None}]}),
        wires.chunk({"role": "assistant", "content": None}),
        wires.chunk({"role": "assistant", "unknown": {"a": 1}}),
        wires.data({"choices": [{"index": 1, "delta": {"content": "another"}}]}),
        wires.data({"anything": 1}),
        wires.chunk({"tool_calls": None}),
    ]

    assert fold(read(wires.reply(*odd, wires.said("a")))[0]).text == "a"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_what_a_model_thinks_is_kept_apart(name: str) -> None:
    message = fold(read(wires.reply(wires.chunk({name: "hm"}), wires.said("a")))[0])

    assert message.text == "a"
    assert message.content[0].raw()["thinking"] == "hm"


def test_content_may_be_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
    ]

    message = fold(read(wires.reply(wires.chunk({"content": parts})))[0])

    assert [block.type for block in message.content] == ["thinking", "text"]


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"error": {"message": "slow", "code": 429}}, RateLimited),
        ({"error": {"message": "slow", "code": "429"}}, RateLimited),
        ({"error": {"message": "busy", "type": "overloaded_error"}}, Overloaded),
        ({"error": "something broke"}, Unavailable),
        ({"object": "error", "message": "broke", "code": 500}, Unavailable),
        ("something broke", Unavailable),
        (b'{"choices":[{"del', Unavailable),
        (b"<html>", Unavailable),
    ],
)
def test_an_error_in_the_stream_is_an_error(told: Any, error: type[ProviderError]) -> None:
    with pytest.raises(error):
        read(wires.said("a"), wires.data(told))


@pytest.mark.parametrize("reason", ["content_filter", "stop"])
def test_a_refusal_is_an_error_of_its_own(reason: str) -> None:
    parts = wires.said("a") if reason == "content_filter" else wires.chunk({"refusal": "I won't"})

    with pytest.raises(Refused):
        read(wires.reply(parts, reason=reason))


def test_an_end_without_a_beginning_is_a_fault() -> None:
    with pytest.raises(Unavailable):
        read(wires.DONE)


def test_what_was_read_from_a_cache_is_counted_for_itself() -> None:
    told = wires.usage(100, 7, prompt_tokens_details={"cached_tokens": 60})

    assert end(wires.said("a"), wires.chunk(reason="stop"), told).usage == Usage(
        input_tokens=40, output_tokens=7, cache_read_tokens=60
    )


def test_usage_that_is_not_told_is_unknown_and_not_nothing() -> None:
    assert end(wires.said("a"), wires.chunk(reason="stop")).usage is None


FUNCTIONS = st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON})
CALLS = st.fixed_dictionaries(
    {}, optional={"index": st.integers(0, 1) | JSON, "id": JSON, "function": FUNCTIONS | JSON}
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "reasoning": JSON,
        "tool_calls": st.lists(CALLS | JSON, max_size=2) | JSON,
        "function_call": FUNCTIONS | JSON,
        "refusal": JSON,
    },
)
CHOICES = st.fixed_dictionaries(
    {}, optional={"index": JSON, "delta": DELTAS, "finish_reason": JSON}
)
CHUNKS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES, max_size=2) | JSON, "usage": JSON, "model": JSON}
)


@given(told=st.lists(CHUNKS | JSON, max_size=8))
def test_whatever_a_service_sends_is_a_reply_or_a_failure_of_its_own(told: list[Any]) -> None:
    reader = OpenAIReader("openai/x")

    with suppress(ProviderError):
        for each in told:
            fold(reader.feed(wires.data(each)))
        list(reader.feed(wires.DONE))


def test_a_call_is_shown_when_it_begins() -> None:
    events, _ = read(wires.calls(call(0, "a", "look")))

    assert ToolStart(0, "a", "look") in events
