from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.gateway.chat_fold import fold_chat, rows_of_chat
from loops.gateway.message_fold import fold_message, rows_of_message
from loops.gateway.rows import BODY
from tests.gateway.frames import DONE, START, block, choice, chunk, event, streamed, text


def test_a_message_is_folded_block_by_block() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    thought = {"type": "thinking_delta", "thinking": "hm"}
    signed = {"type": "signature_delta", "signature": "s=="}

    body = fold_message(
        streamed(
            block(0, thinking, thought, thought, signed),
            block(1, {"type": "text", "text": ""}, *text("Hel", "lo")),
        )
    )

    assert body["content"] == [
        {"type": "thinking", "thinking": "hmhm", "signature": "s=="},
        {"type": "text", "text": "Hello"},
    ]
    assert (body["id"], body["stop_reason"]) == ("msg_1", "end_turn")
    assert body["usage"] == {"input_tokens": 7, "output_tokens": 9, "service_tier": "standard"}


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        (['{"a": ', "[1, 2]}"], {"a": [1, 2]}),
        ([], {}),
        ([""], {}),
        (['{"a": '], {"_raw": '{"a": '}),
        (["[1]"], {"_raw": "[1]"}),
    ],
)
def test_arguments_are_read_when_their_block_ends(pieces: list[str], wanted: object) -> None:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    started = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}

    body = fold_message(streamed(block(0, started, *deltas)))

    assert body["content"] == [{**started, "input": wanted}]


def test_what_is_not_known_is_kept() -> None:
    """Citations, blocks, fields and deltas that came after this was written are not lost."""
    odd = {"type": "compaction", "content": None, "parts": [1]}
    grows = {"type": "compaction_delta", "content": "short", "parts": [2]}
    cited = {"type": "citations_delta", "citation": {"url": "u"}}

    body = fold_message(
        streamed(
            block(0, odd, grows, grows),
            block(1, {"type": "text", "text": "", "citations": []}, *text("a"), cited),
            delta={"stop_reason": "refusal", "stop_details": {"why": "x"}},
            context_management={"edits": []},
        )
    )

    assert body["content"] == [
        {"type": "compaction", "content": "shortshort", "parts": [1, 2, 2]},
        {"type": "text", "text": "a", "citations": [{"url": "u"}]},
    ]
    assert (body["stop_details"], body["context_management"]) == ({"why": "x"}, {"edits": []})


def test_half_a_character_meets_its_other_half() -> None:
    rows = streamed(block(0, {"type": "text", "text": ""}, *text("HIGH", "LOW")))
    split = [
        (name, data.replace("HIGH", "\\ud83d").replace("LOW", "\\ude00")) for name, data in rows
    ]

    body = fold_message(split)

    assert body["content"][0]["text"] == "\U0001f600"


def test_a_row_that_is_a_body_stands_for_itself() -> None:
    assert fold_message([(BODY, '{"content": [1]}')]) == {"content": [1]}
    assert fold_chat([(BODY, '{"choices": []}')]) == {"choices": []}


def test_pings_and_events_that_nobody_knows_are_no_part_of_a_message() -> None:
    rows = streamed(block(0, {"type": "text", "text": ""}, *text("a")))

    noisy = [rows[0], event("ping"), event("weather", sun=1), ("", "no json"), *rows[1:]]

    assert fold_message(noisy) == fold_message(rows)


def test_a_chat_completion_is_folded_choice_by_choice() -> None:
    rows = [
        chunk(choice({"role": "assistant", "content": "", "refusal": None})),
        chunk(choice({"content": "Hel"}, logprobs={"content": [1]})),
        chunk(choice({"content": "B", "reasoning_content": "hm"}, index=1)),
        chunk(choice({"content": "lo"}, logprobs={"content": [2]}), system_fingerprint="fp"),
        chunk(choice({}, finish_reason="stop"), choice({}, index=1, finish_reason="length")),
        chunk(usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
        DONE,
    ]

    body = fold_chat(rows)

    first, second = body["choices"]
    assert first["message"] == {"role": "assistant", "content": "Hello", "refusal": None}
    assert (first["logprobs"], first["finish_reason"]) == ({"content": [1, 2]}, "stop")
    assert second["message"]["reasoning_content"] == "hm"
    assert (second["finish_reason"], body["system_fingerprint"]) == ("length", "fp")
    assert (body["object"], body["usage"]["total_tokens"]) == ("chat.completion", 5)


def test_calls_of_a_chat_completion_grow_by_their_index() -> None:
    """Two calls with one index and two ids are two; what else is told of a call stays with it."""
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    begun = {"index": 0, "id": "a", "type": "function", "function": {"name": "f"}}
    deltas: list[dict[str, Any]] = [
        {**begun, **signed},
        {"index": 0, "function": {"arguments": '{"q":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {**begun, "id": "b"},
    ]

    body = fold_chat([chunk(choice({"tool_calls": [each]})) for each in deltas])

    first, second = body["choices"][0]["message"]["tool_calls"]
    assert first["function"] == {"name": "f", "arguments": '{"q":1}'}
    assert (first["extra_content"], first["id"]) == (signed["extra_content"], "a")
    assert second["function"] == {"name": "f", "arguments": "{}"}


def test_a_custom_tools_call_keeps_its_input_as_text() -> None:
    begun = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x "}}
    more = {"index": 0, "custom": {"input": "y"}}

    body = fold_chat([chunk(choice({"tool_calls": [each]})) for each in (begun, more)])

    [call] = body["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x y"}}


def test_parts_and_text_by_turns_are_all_kept() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}

    body = fold_chat([chunk(choice({"content": [part]})), chunk(choice({"content": "so"}))])

    assert body["choices"][0]["message"]["content"] == [part, {"type": "text", "text": "so"}]


words = st.text(max_size=8)
objects = st.dictionaries(words, st.integers(0, 9) | words, max_size=2)
blocks = st.one_of(
    st.builds(lambda said: {"type": "text", "text": said}, words),
    st.builds(lambda said: {"type": "text", "text": "a", "citations": [{"url": said}]}, words),
    st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": said}, words),
    st.builds(lambda said: {"type": "redacted_thinking", "data": said}, words),
    st.builds(lambda told: {"type": "tool_use", "id": "t", "name": "f", "input": told}, objects),
    st.builds(lambda told: {"type": "server_tool_use", "id": "t", "input": told}, objects),
    st.builds(lambda told: {"type": "weather", "told": told}, objects),
)


@settings(max_examples=50)
@given(st.lists(blocks, max_size=4), st.sampled_from(["end_turn", "tool_use", None]))
def test_a_message_comes_back_from_its_rows(content: list[Any], reason: str | None) -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "cache": {"a": 1}}
    body = {**START, "content": content, "stop_reason": reason, "usage": usage, "odd": [1]}

    assert fold_message(rows_of_message(body)) == body


messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | words.filter(bool)},
    optional={"refusal": st.none() | words.filter(bool), "annotations": st.just([{"a": 1}])},
)


@settings(max_examples=50)
@given(st.lists(messages, min_size=1, max_size=2), st.lists(objects, max_size=2))
def test_a_chat_completion_comes_back_from_its_rows(said: list[Any], calls: list[Any]) -> None:
    told = [
        {"id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": call}}
        for at, each in enumerate(calls)
        if (call := orjson.dumps(each).decode())
    ]
    if told:
        said[0]["tool_calls"] = told
    choices = [
        {"index": at, "message": each, "logprobs": None, "finish_reason": "stop"}
        for at, each in enumerate(said)
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    body = {"id": "c", "object": "chat.completion", "created": 5, "model": "m", "odd": 1}
    body |= {"choices": choices, "usage": usage}

    assert fold_chat(rows_of_chat(body)) == body
    assert "usage" not in fold_chat(rows_of_chat(body, tells_usage=False))
