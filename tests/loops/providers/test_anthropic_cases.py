"""What goes wrong with Anthropic's streams in public, case by case, over real HTTP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from loops.errors import Incomplete, Overloaded, ProviderError, RateLimited, Refused, Unavailable
from loops.fold import fold
from loops.messages import Usage
from loops.providers.anthropic import PAUSES
from loops.reply import StreamEnd, StreamStart, ToolEnd
from tests.loops.providers import anthropic_wires as wires
from tests.loops.providers.asking import end_of, failing, model_at, reply, seen_of
from tests.loops.providers.service import STREAM, Answer, serving

A = "anthropic"
JSON = "application/json"

# -- a stream that is cut in a call

CALL: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
NAMED = wires.started() + wires.event("content_block_start", index=0, content_block=CALL)


def written(text: str) -> bytes:
    delta = {"type": "input_json_delta", "partial_json": text}
    return wires.event("content_block_delta", index=0, delta=delta)


CUT: Mapping[str, tuple[bytes, int]] = {
    "after the name": (NAMED, 0),
    "after half of the arguments": (NAMED + written('{"x"'), 0),
    "after all arguments, in the open block": (NAMED + written('{"x":1}'), 0),
    "after the block": (wires.started() + wires.called(0, "f", '{"x":1}'), 1),
    "after a block without arguments": (wires.started() + wires.called(0, "f"), 0),
}


@pytest.mark.parametrize("breaks_off", [True, False], ids=["broken", "ended"])
@pytest.mark.parametrize("name", CUT)
async def test_a_call_is_given_only_when_its_block_is_closed(name: str, breaks_off: bool) -> None:
    data, calls = CUT[name]

    seen, error = await failing(A, Answer([data], breaks_off=breaks_off))

    assert len([each for each in seen if isinstance(each, ToolEnd)]) == calls
    assert len(fold(seen).tool_calls) == calls
    assert isinstance(error, (Incomplete, Unavailable))
    assert error.retryable


# -- an error after the status

ERRORS: Mapping[str, type[ProviderError]] = {
    "overloaded_error": Overloaded,
    "api_error": Unavailable,
    "rate_limit_error": RateLimited,
}
TEXT = wires.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HALF = wires.event("content_block_delta", index=0, delta={"type": "text_delta", "text": "half"})


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (b"", ""),
        (wires.started(), ""),
        (wires.started() + TEXT + HALF, "half"),
        (wires.started() + wires.said(0, "whole"), "whole"),
    ],
    ids=["before all", "before text", "in text", "after text"],
)
@pytest.mark.parametrize("kind", ERRORS)
async def test_an_error_after_the_status_is_typed_and_keeps_what_came_before(
    kind: str, before: bytes, text: str
) -> None:
    seen, error = await failing(A, Answer([before + wires.failed(kind, "why")]))

    assert type(error) is ERRORS[kind]
    assert (error.retryable, error.status) == (True, None)
    assert "why" in str(error)
    assert fold(seen).text == text
    assert not any(isinstance(each, StreamEnd) for each in seen)


@pytest.mark.parametrize("kind", ERRORS)
async def test_an_error_instead_of_a_stream_is_typed(kind: str) -> None:
    body = b'{"type":"error","error":{"type":"%b","message":"why"}}' % kind.encode()
    headers = {"retry-after": "7"}

    seen, error = await failing(A, Answer([body], kind=JSON, headers=headers))

    assert (type(error), seen) == (ERRORS[kind], [])
    assert "why" in str(error)
    assert error.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>busy</html>", "text/html"),
        (b"<html>busy</html>", STREAM),
        (b"", "text/html"),
        (b"", STREAM),
        (b'{"type":"message","content":[]}', JSON),
        (b'{"error":"broke"}', JSON),
    ],
    ids=["HTML", "HTML as a stream", "nothing", "an empty stream", "a reply at once", "a word"],
)
async def test_what_is_no_stream_is_a_fault_of_the_service(body: bytes, kind: str) -> None:
    seen, error = await failing(A, Answer([body] if body else [], kind=kind))

    assert isinstance(error, (Unavailable, Incomplete))
    assert (error.retryable, seen) == (True, [])
    assert "html" not in str(error).replace("text/html", "")


# -- a reply that is paused

SEARCH = {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s_1", "content": [{"type": "x"}]}
NEXT = {"type": "of_next_year", "anything": {"at": ["all"]}}
PAUSED = wires.reply(
    wires.thought(0, "hm", signature="s"), wires.said(1, "I look"), wires.block(2, SEARCH),
    wires.block(3, FOUND), wires.block(4, NEXT), stop_reason="pause_turn",
)  # fmt: skip
SAID = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "I look"},
    *(SEARCH, FOUND, NEXT),
]


async def test_a_paused_reply_is_sent_back_unchanged_and_goes_on() -> None:
    whole = wires.reply(wires.said(0, " found"))
    async with serving(Answer([PAUSED]), Answer([PAUSED]), Answer([whole])) as service:
        events, _ = await seen_of(model_at(service, A, caches=False))

    asked = [each.body["messages"] for each in service.asked]
    assert [each[-1]["content"] for each in asked[1:]] == [SAID, SAID + SAID]
    assert [message["role"] for message in asked[2]] == ["user", "assistant"]
    assert [type(each) for each in events].count(StreamStart) == 1
    assert end_of(events).stop_reason == "end_turn"
    assert fold(events).text == "I lookI look found"


async def test_a_reply_that_is_paused_for_ever_is_a_fault_of_the_service() -> None:
    async with serving(Answer([PAUSED])) as service:
        _, error = await seen_of(model_at(service, A))

    assert isinstance(error, Unavailable)
    assert f"paused its reply {PAUSES + 1} times" in str(error)
    assert len(service.asked) == PAUSES + 1


# -- why a reply ended


async def test_a_refusal_in_the_middle_of_text_is_an_error_of_its_own() -> None:
    seen, error = await failing(
        A, Answer([wires.reply(wires.said(0, "I w"), stop_reason="refusal")])
    )

    assert (type(error), error.code, error.retryable) == (Refused, "refused", False)
    assert fold(seen).text == "I w"


async def test_a_refusal_says_why_where_the_service_does() -> None:
    delta = {"stop_reason": "refusal", "stop_details": {"explanation": "of harm"}}
    told = wires.started() + wires.event("message_delta", delta=delta) + wires.event("message_stop")

    _, error = await failing(A, Answer([told]))

    assert str(error).endswith("declined to answer: of harm")


@pytest.mark.parametrize("reason", ["model_context_window_exceeded", "max_tokens", "of_next_year"])
async def test_any_other_reason_is_passed_on_and_is_an_end(reason: str) -> None:
    events = await reply(A, Answer([wires.reply(wires.said(0, "so"), stop_reason=reason)]))

    assert (end_of(events).stop_reason, fold(events).text) == (reason, "so")


# -- what a reply cost


@pytest.mark.parametrize(
    ("data", "usage"),
    [
        (wires.started(input_tokens=5) + wires.ended(output_tokens=30),
         Usage(input_tokens=5, output_tokens=30)),
        (wires.started(output_tokens=1)
         + wires.event("message_delta", delta={}, usage={"output_tokens": 7})
         + wires.ended(output_tokens=9), Usage(input_tokens=10, output_tokens=9)),
        (wires.started(input_tokens=5, cache_read_input_tokens=3, cache_creation_input_tokens=2)
         + wires.ended(output_tokens=9),
         Usage(input_tokens=5, output_tokens=9, cache_read_tokens=3, cache_write_tokens=2)),
        (wires.started() + wires.event("message_delta", delta={"stop_reason": "end_turn"}, usage={})
         + wires.event("message_stop"), Usage(input_tokens=10, output_tokens=1)),
        (wires.started() + wires.event("message_delta", delta={}, usage={
            "input_tokens": None, "output_tokens": None, "cache_read_input_tokens": True})
         + wires.event("message_stop"), Usage(input_tokens=10, output_tokens=1)),
        (wires.started() + wires.event("message_delta", delta={}) + wires.event("message_stop"),
         Usage(input_tokens=10, output_tokens=1)),
        (wires.event("message_start", message={}) + wires.event("message_stop"), None),
        (wires.event("message_start", message={"usage": {"output_tokens": 0}})
         + wires.event("message_stop"), Usage(output_tokens=0)),
    ],
    ids=["told twice", "told thrice", "of a cache", "nothing more", "nulls", "not told again",
         "never told", "told as none"],
)  # fmt: skip
async def test_what_a_reply_cost_is_what_was_told_last(data: bytes, usage: Usage | None) -> None:
    assert end_of(await reply(A, Answer([data]))).usage == usage
