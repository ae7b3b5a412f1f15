"""What goes wrong with Chat Completions in public, case by case, over real HTTP."""

from collections.abc import Mapping
from typing import Any

import pytest

from loops.errors import (
    Incomplete,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Unavailable,
)
from loops.fold import fold
from loops.reply import StreamEnd
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.asking import end_of, failing, reply
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import STREAM, Answer

O = "openai"  # noqa: E741 - the vendor whose protocol it is
JSON = "application/json"


async def reply_of(*parts: bytes) -> list[Any]:
    return await reply(O, Answer([b"".join(parts)]))


# -- why a reply ended


@pytest.mark.parametrize(
    ("reason", "with_call", "told"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_use"),
        ("tool_calls", True, "tool_use"),
        ("tool_calls", False, "end_turn"),
        ("function_call", True, "tool_use"),
        ("function_call", False, "end_turn"),
        ("length", True, "max_tokens"),
        ("length", False, "max_tokens"),
        (None, False, "end_turn"),
        (None, True, "tool_use"),
        ("of_next_year", False, "of_next_year"),
    ],
)
async def test_why_a_reply_ended_is_what_stands_in_it(
    reason: str | None, with_call: bool, told: str
) -> None:
    parts = [wires.calls(call(0, "a", "f", '{"x'))] if with_call else [wires.said("a")]

    assert end_of(await reply_of(wires.reply(*parts, reason=reason))).stop_reason == told


async def test_a_reply_without_any_reason_ends_with_its_end() -> None:
    assert end_of(await reply_of(wires.said("a"), wires.DONE)).stop_reason == "end_turn"


@pytest.mark.parametrize(
    "last",
    [b"", wires.usage(), wires.usage() + wires.DONE, wires.DONE + wires.said("more"),
     b"data: [DONE]"],
    ids=["nothing", "only usage", "all", "more after the end", "half of the end"],
)  # fmt: skip
async def test_a_reply_with_a_reason_is_whole_whatever_comes_then(last: bytes) -> None:
    events = await reply_of(wires.said("a"), wires.chunk(reason="stop"), last)

    assert fold(events).text == "a"
    assert end_of(events).stop_reason == "end_turn"


@pytest.mark.parametrize("part", [b"", wires.said("a"), wires.calls(call(0, "a", "f", "{}"))])
async def test_a_reply_without_a_reason_and_an_end_is_incomplete(part: bytes) -> None:
    seen, error = await failing(O, Answer([part] if part else []))

    assert isinstance(error, Incomplete)
    assert fold(seen).tool_calls == []


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (wires.said("I wo"), "content_filter"),
        (wires.chunk({"refusal": "I won't"}), "stop"),
        (wires.said("I wo") + wires.chunk({"refusal": "I won't"}), None),
        (wires.calls(call(0, "a", "f", "{}")), "content_filter"),
    ],
    ids=["by its reason", "in words", "in words after text", "after a call"],
)
async def test_a_reply_that_is_declined_is_an_error_of_its_own(
    parts: bytes, reason: str | None
) -> None:
    seen, error = await failing(O, Answer([wires.reply(parts, reason=reason)]))

    assert (type(error), error.code, error.retryable) == (Refused, "refused", False)
    assert ("I won't" in str(error)) == (b"refusal" in parts)
    assert fold(seen).tool_calls == []


async def test_an_empty_refusal_is_none() -> None:
    events = await reply_of(wires.reply(wires.chunk({"content": "a", "refusal": ""})))

    assert fold(events).text == "a"


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
async def test_a_reason_that_is_a_failure_is_one(reason: str) -> None:
    part = wires.calls(call(0, "a", "f", "{}"))

    seen, error = await failing(O, Answer([wires.reply(part, reason=reason)]))

    assert (type(error), error.retryable) == (Unavailable, True)
    assert fold(seen).tool_calls == []


# -- errors in a stream, and instead of one

ERRORS: Mapping[str, tuple[Any, type[ProviderError]]] = {
    "an object": ({"error": {"message": "busy", "type": "overloaded_error"}}, Overloaded),
    "an object with a code": ({"error": {"message": "slow", "code": 429}}, RateLimited),
    "a code in words": ({"error": {"message": "slow", "code": "429"}}, RateLimited),
    "a code with a name": ({"error": {"code": "rate_limit_exceeded"}}, RateLimited),
    "an object in an object": ({"error": {"error": {"code": 429}}}, RateLimited),
    "a code of the service's fault": ({"error": {"message": "bad", "code": "502"}}, Unavailable),
    "a code of the caller's fault": ({"error": {"message": "no", "code": 400}}, InvalidRequest),
    "a string": ({"error": "something broke"}, Unavailable),
    "a bare string": ("something broke", Unavailable),
    "an object that says it is one": (
        {"object": "error", "message": "a", "code": 500},
        Unavailable,
    ),
    "beside choices": ({"choices": [], "error": {"code": 502}}, Unavailable),
    "a list": ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], RateLimited),
    "half a line of JSON": (b'{"choices":[{"del', Unavailable),
    "HTML": (b"<html>", Unavailable),
    "nothing": (b" ", Unavailable),
}


@pytest.mark.parametrize("before", [b"", wires.said("half")], ids=["at once", "after text"])
@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_in_a_stream_is_typed_and_keeps_what_came_before(
    name: str, before: bytes
) -> None:
    told, kind = ERRORS[name]

    seen, error = await failing(O, Answer([before + wires.data(told)]))

    assert (type(error), error.status) == (kind, None)
    assert error.retryable is (kind is not InvalidRequest)
    assert fold(seen).text == ("half" if before else "")
    assert not any(isinstance(each, StreamEnd) for each in seen)


async def test_an_error_by_the_name_of_its_event_is_one() -> None:
    _, error = await failing(O, Answer([b'event: error\ndata: {"code":"rate_limit"}\n\n']))

    assert isinstance(error, RateLimited)


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"<html>busy</html>", "text/html", Unavailable),
        (b"<html>busy</html>", STREAM, Incomplete),
        (b"", "text/html", Unavailable),
        (b"", STREAM, Incomplete),
        (b"", JSON, Unavailable),
        (b'{"error":{"message":"slow","code":429}}', JSON, RateLimited),
        (b'{"error":"broke"}', JSON, Unavailable),
        (b'{"object":"chat.completion","choices":[]}', JSON, Unavailable),
        (b'{"choices":[{"del', STREAM, Incomplete),
        (b"data: [DONE]\n\n", STREAM, Unavailable),
    ],
    ids=["HTML", "HTML as a stream", "empty HTML", "an empty stream", "empty JSON", "an error",
         "an error in a word", "a reply at once", "half a line", "an end at once"],
)  # fmt: skip
async def test_what_is_no_stream_is_a_fault_of_the_service(
    body: bytes, kind: str, error: type[ProviderError]
) -> None:
    seen, found = await failing(O, Answer([body] if body else [], kind=kind))

    assert (type(found), found.retryable, seen) == (error, True, [])


# -- odd chunks

ODD: Mapping[str, bytes] = {
    "no choice": wires.data({"choices": []}),
    "choices of null": wires.data({"choices": None}),
    "no choices": wires.data({"id": "c", "anything": 1}),
    "a choice of null": wires.data({"choices": [None]}),
    "a delta of null": wires.data({"choices": [{"index": 0, "delta": None}]}),
    "no delta": wires.data({"choices": [{"index": 0}]}),
    "content of null": wires.chunk({"role": "assistant", "content": None}),
    "content that is none": wires.chunk({"content": 7}),
    "the role again": wires.chunk({"role": "assistant"}),
    "a role of null": wires.chunk({"role": None}),
    "fields that nobody knows": wires.chunk({"unknown": {"a": 1}}, unknown=[1]),
    "another choice": wires.data({"choices": [{"index": 1, "delta": {"content": "no"}}]}),
    "another choice first": wires.data(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {}}]}
    ),
    "a choice without an index": wires.data({"choices": [{"delta": {"content": ""}}]}),
    "calls of null": wires.chunk({"tool_calls": None}),
    "no calls": wires.chunk({"tool_calls": []}),
    "a call of null": wires.chunk({"tool_calls": [None]}),
    "a reason that is none": wires.chunk({}, reason=""),
    "a filter's notes": wires.data({"choices": [], "prompt_filter_results": [{"a": 1}]}),
}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("name", ODD)
async def test_an_odd_chunk_does_no_harm(name: str, is_first: bool) -> None:
    parts = [ODD[name], wires.said("a")] if is_first else [wires.said("a"), ODD[name]]

    events = await reply_of(*parts, wires.said("b"), wires.chunk(reason="stop"), wires.DONE)

    assert [block.raw() for block in fold(events).content] == [{"type": "text", "text": "ab"}]


async def test_of_several_choices_the_first_is_the_reply() -> None:
    both = [{"index": at, "delta": {"content": text}, "finish_reason": "stop"}
            for at, text in enumerate("ab")]  # fmt: skip

    for choices in (both, both[::-1]):
        events = await reply_of(wires.data({"choices": choices}), wires.DONE)
        assert fold(events).text == "a"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
async def test_what_a_model_thinks_is_kept_apart(name: str) -> None:
    parts = [wires.chunk({name: "h"}), wires.chunk({name: "m", "content": None}), wires.said("a")]

    message = fold(await reply_of(wires.reply(*parts)))

    assert message.text == "a"
    assert [block.raw().get("thinking") for block in message.content] == ["hm", None]


async def test_what_is_said_under_two_names_is_said_once() -> None:
    both = wires.chunk({"reasoning": "hm", "reasoning_content": "hm"})

    message = fold(await reply_of(wires.reply(both, wires.said("a"))))

    assert message.content[0].raw()["thinking"] == "hm"


async def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
             {"type": "text", "text": "a"}]  # fmt: skip

    message = fold(await reply_of(wires.reply(wires.chunk({"content": parts}))))

    assert [block.type for block in message.content] == ["thinking", "text"]
