"""The methods of callbacks that stand around a call, and the rules for its answer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from loops.gateway.rounds import Mode, Surface
from loops.gateway.settings import GatewaySettings
from tests.gateway.rounds_in_process import (
    ASKS,
    CHAT,
    FOUND,
    KEY,
    MESSAGES,
    SURFACES,
    TWO,
    Raw,
    answering,
    ask,
    callback,
    gate,
    gives,
    hearing,
    raises,
)
from tests.gateway.upstream import fails, in_turn, says
from tests.gateway.whole import frames_of, whole

PRE_CALL, SUCCESS = "async_pre_call_hook", "async_post_call_success_hook"
FAILURE, WRAPPER = "async_post_call_failure_hook", "async_post_call_streaming_iterator_hook"
LOG_SUCCESS, LOG_FAILURE = "async_log_success_event", "async_log_failure_event"

WAYS = [(surface, stream) for surface in SURFACES for stream in (False, True)]


@dataclass
class HTTPException(Exception):  # noqa: N818 - its name in web frameworks
    """An error as web frameworks have it."""

    status_code: int
    detail: Any


def all_of(told: Raw) -> Raw:
    return told


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_pre_call_hook_sees_the_request_once(surface: Surface):
    heard: list[Raw] = []
    own = answering(**{PRE_CALL: hearing(heard, all_of, gives(None))})

    came = await ask(TWO, own, surface=surface)

    assert (len(heard), len(came.sent)) == (1, 2)
    assert set(heard[0]) == {"user_api_key_dict", "cache", "data", "call_type"}
    kinds = {MESSAGES: "anthropic_messages", CHAT: "acompletion"}
    assert heard[0]["call_type"] == kinds[surface]
    assert heard[0]["data"]["model"] == "main"
    assert heard[0]["user_api_key_dict"].api_key == "k"
    assert came.text == FOUND.text


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_pre_call_hook_may_give_another_request(surface: Surface):
    async def changes(self: Any, data: Raw, **_: Any) -> Raw:
        return {**data, "model": "other", "temperature": 0.1, "_own_note": 1}

    heard: list[Raw] = []
    second = callback(
        **{
            PRE_CALL: hearing(heard, lambda told: told["data"], gives(None)),
            "async_should_run_agentic_loop": hearing(heard, lambda told: told["kwargs"], gate),
        }
    )
    came = await ask(ASKS, callback(**{PRE_CALL: changes}), second, surface=surface)

    assert (came.sent[0]["model"], came.sent[0]["temperature"]) == ("m-other", 0.1)
    assert "_own_note" not in came.sent[0]
    assert [told["_own_note"] for told in heard] == [1, 1]


async def test_a_pre_call_hook_may_change_what_it_was_given():
    async def changes(self: Any, data: Raw, **_: Any) -> None:
        data["messages"][0]["content"] = "other"

    came = await ask(FOUND, callback(**{PRE_CALL: changes}))

    assert came.sent[0]["messages"] == [{"role": "user", "content": "other"}]


@pytest.mark.parametrize(("surface", "stream"), WAYS)
async def test_a_text_of_a_pre_call_hook_is_the_answer(surface: Surface, stream: bool):
    later = callback(**{PRE_CALL: raises(AssertionError("it is not asked"))})

    came = await ask(
        FOUND, callback(**{PRE_CALL: gives("not today")}), later, surface=surface, stream=stream
    )

    assert (came.content, came.reason, came.sent) == ([("text", "not today")], "end_turn", [])


@pytest.mark.parametrize(("surface", "stream"), WAYS)
@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (HTTPException(429, "slowly"), 429, "slowly"),
        (HTTPException(403, {"error": "not you"}), 403, "not you"),
        (ValueError("odd"), 500, "odd"),
    ],
)
async def test_a_pre_call_hook_refuses_by_what_it_raises(
    surface: Surface, stream: bool, error: Exception, status: int, said: str
):
    own = callback(**{PRE_CALL: raises(error)})

    came = await ask(FOUND, own, surface=surface, stream=stream)

    assert (came.failure.status, came.sent) == (status, [])
    assert said in came.failure.body(surface)["error"]["message"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_success_hook_sees_the_last_answer_once_and_may_replace_it(surface: Surface):
    heard: list[Raw] = []

    async def changes(self: Any, response: Any, **_: Any) -> Any:
        told = response.model_dump()
        if surface is CHAT:
            told["choices"][0]["message"]["content"] += "!"
        else:
            told["content"][0]["text"] += "!"
        return told

    first = answering(**{SUCCESS: hearing(heard, all_of, changes)})
    came = await ask(TWO, first, callback(**{SUCCESS: changes}), surface=surface)

    assert [set(told) for told in heard] == [{"data", "user_api_key_dict", "response"}]
    assert came.text == "found it!!"
    assert "20" in str(came.body["usage"])


async def test_a_success_hook_may_change_what_it_was_given_or_nothing():
    async def changes(self: Any, response: Any, **_: Any) -> None:
        response["content"][0]["text"] = "mine"

    came = await ask(FOUND, callback(**{SUCCESS: changes}), callback(**{SUCCESS: gives(None)}))

    assert came.text == "mine"


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_success_hook_that_raises_refuses_the_answer(surface: Surface):
    own = callback(**{SUCCESS: raises(HTTPException(451, "never"))})

    came = await ask(FOUND, own, surface=surface)

    assert (came.failure.status, came.failure.message) == (451, "never")


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_stream_has_no_success_hook(surface: Surface):
    own = callback(**{SUCCESS: raises(AssertionError("it is not asked"))})

    came = await ask(FOUND, own, surface=surface, stream=True)

    assert (came.text, came.error) == (FOUND.text, None)


UNFIT = fails(400, "invalid_request_error", "too odd")


@pytest.mark.parametrize(("surface", "stream"), WAYS)
async def test_a_failure_hook_hears_the_error(surface: Surface, stream: bool):
    heard: list[Raw] = []
    own = callback(**{FAILURE: hearing(heard, all_of, gives(None))})

    came = await ask(UNFIT, own, surface=surface, stream=stream)

    [told] = heard
    named = {"request_data", "original_exception", "user_api_key_dict", "traceback_str"}
    assert set(told) == named
    assert "too odd" in str(told["original_exception"])
    assert told["request_data"]["model"] == "main"
    assert KEY not in repr(told)
    assert (came.failure.status, came.failure.message) == (400, "too odd")


@pytest.mark.parametrize("work", [gives, raises])
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_failure_hook_may_say_what_the_caller_is_told(surface: Surface, work: Any):
    own = callback(**{FAILURE: work(HTTPException(418, "a teapot"))})

    came = await ask(UNFIT, own, surface=surface)

    assert (came.failure.status, came.failure.message) == (418, "a teapot")


async def test_a_failure_hook_that_fails_itself_is_logged(caplog: pytest.LogCaptureFixture):
    own = callback(**{FAILURE: raises(ValueError("hook boom"))})

    came = await ask(UNFIT, own)

    assert came.failure.message == "too odd"
    assert "hook boom" in caplog.text


async def test_a_failure_hook_hears_what_a_callback_has_raised():
    heard: list[Any] = []
    own = answering(
        async_build_agentic_loop_plan=raises(ValueError("plan boom")),
        **{FAILURE: hearing(heard, lambda told: told["original_exception"], gives(None))},
    )

    await ask(ASKS, own)

    assert [type(error) for error in heard] == [ValueError]


@pytest.mark.parametrize(("surface", "stream"), WAYS)
async def test_a_success_is_logged_once_for_all_rounds(surface: Surface, stream: bool):
    heard: list[Raw] = []
    own = answering(**{LOG_SUCCESS: hearing(heard, all_of, raises(ValueError("log boom")))})
    more = {"stream_options": {"include_usage": True}} if surface is CHAT and stream else {}

    came = await ask(TWO, own, surface=surface, mode=Mode.MERGED, stream=stream, **more)

    [told] = heard
    assert set(told) == {"kwargs", "response_obj", "start_time", "end_time"}
    assert isinstance(told["start_time"], datetime)
    assert told["start_time"] <= told["end_time"]
    assert told["response_obj"].usage == came.body["usage"]
    assert "20" in str(came.body["usage"])
    assert told["kwargs"]["_agentic_loop_depth"] == 1
    assert came.text.endswith(FOUND.text)


@pytest.mark.parametrize("second", [UNFIT, "a builder"])
async def test_a_failure_is_logged_once(second: Any):
    heard: list[Raw] = []
    more = {} if second is UNFIT else {"async_build_agentic_loop_plan": raises(ValueError("boom"))}
    own = answering(**{LOG_FAILURE: hearing(heard, all_of, gives(None)), **more})

    await ask(in_turn(ASKS, UNFIT), own)

    [told] = heard
    assert set(told) == {"kwargs", "response_obj", "start_time", "end_time"}
    assert told["response_obj"] is None
    assert isinstance(told["kwargs"]["exception"], Exception)


def short(text: str) -> bool:
    return len(text) < 5


def polite(text: str) -> Any:
    return {"decision": False, "message": "say please"} if text else None


def broken(text: str) -> Any:
    raise ValueError("rule boom")


@pytest.mark.parametrize(
    ("rule", "said"),
    [(short, "did not pass a rule"), (polite, "say please"), (broken, "rule boom")],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_chats_text_that_breaks_a_rule_is_refused(rule: Any, said: str, stream: bool):
    told = GatewaySettings(post_call_rules=(rule,))

    came = await ask(FOUND, surface=CHAT, settings=told, mode=Mode.HOLD, stream=stream)

    assert said in came.failure.message
    assert came.failure.status == 422


@pytest.mark.parametrize(
    ("surface", "told"),
    [(MESSAGES, FOUND), (CHAT, says(calls=ASKS.calls)), (CHAT, says("ok"))],
    ids=["a message", "no text", "kept"],
)
async def test_a_rule_is_for_the_text_of_chats_alone(surface: Surface, told: Any):
    rules = GatewaySettings(post_call_rules=(short,))

    came = await ask(told, surface=surface, settings=rules)

    assert (came.failure, came.error) == (None, None)


def wrapping(seen: list[Any]) -> Any:
    """Return a callback that sees what it wraps, and writes a word in capitals."""

    async def wrap(
        self: Any, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: Raw
    ) -> AsyncIterator[Any]:
        seen.append((user_api_key_dict.user_id, request_data["model"]))
        async for chunk in response:
            seen.append(chunk)
            yield chunk.replace(b"found", b"FOUND") if isinstance(chunk, bytes) else chunk

    return answering(**{WRAPPER: wrap})


async def test_a_message_is_wrapped_as_bytes_on_its_way_out(redis_url: str):
    seen: list[Any] = []

    async with whole(redis_url, TWO, wrapping(seen)) as gateway:
        answer = await gateway.post(MESSAGES, mode="merged", stream=True)

    assert seen[0] == ("default", "main")
    assert {type(each) for each in seen[1:]} == {bytes}
    assert '"FOUND' in answer.text
    names = [name for name, _ in frames_of(answer.text)]
    assert (names.count("message_start"), names[-1]) == (1, "message_stop")


async def test_a_chat_is_wrapped_as_chunks_on_its_way_out(redis_url: str):
    seen: list[Any] = []

    async with whole(redis_url, TWO, wrapping(seen), protocol=CHAT) as gateway:
        answer = await gateway.post(CHAT, mode="merged", stream=True)

    assert {each.object for each in seen[1:]} == {"chat.completion.chunk"}
    assert {each.choices[0].index for each in seen[1:] if each.choices} == {0}
    assert frames_of(answer.text)[-1] == ("", "[DONE]")


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_wrapper_that_raises_ends_the_stream_with_an_error(
    redis_url: str, surface: Surface, caplog: pytest.LogCaptureFixture
):
    async def wrap(self: Any, response: AsyncIterator[Any], **_: Any) -> AsyncIterator[Any]:
        yield await anext(response)
        raise HTTPException(400, "no more")

    async with whole(redis_url, FOUND, callback(**{WRAPPER: wrap}), protocol=surface) as gateway:
        answer = await gateway.post(surface, stream=True)

    frames = frames_of(answer.text)
    is_chat = surface is CHAT
    name, data = frames[-2 if is_chat else -1]
    assert name == ("" if is_chat else "error")
    assert '"message":"no more"' in data
    assert "no more" in caplog.text
