"""What hostile callers, providers and callbacks have broken once: each stays mended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import orjson
import pytest

from loops.gateway.rounds import Mode, Surface
from loops.gateway.settings import GatewaySettings
from loops.providers.exchange import new_client
from tests.gateway.rounds_in_process import (
    CHAT,
    FOUND,
    KEY,
    MESSAGES,
    MODES,
    OURS,
    SURFACES,
    TWO,
    WATCHED,
    Raw,
    always,
    answering,
    ask,
    body_of,
    planning,
)
from tests.gateway.upstream import (
    Asked,
    Called,
    Row,
    Script,
    Told,
    completion_rows,
    fails,
    frame_of,
    message,
    message_rows,
    says,
)
from tests.gateway.whole import PATHS, frames_of, whole
from tests.loops.providers.service import Answer
from tests.waiting import wait_until

QUICK = GatewaySettings(
    ping=timedelta(milliseconds=50), callback_timeout=timedelta(milliseconds=200)
)


def sent(rows: list[Row]) -> Answer:
    """Return an answer that streams the rows."""
    return Answer([b"".join(map(frame_of, rows))])


def body(told: Raw) -> Answer:
    return Answer([orjson.dumps(told)], kind="application/json")


def changed(rows: list[Row], change: Callable[[Raw], Raw]) -> list[Row]:
    """Return the rows, each with its data changed."""
    return [(name, orjson.dumps(change(orjson.loads(data))).decode()) for name, data in rows]


def first_then_found(first: Told) -> Script:
    """Return a script that gives an answer once, and says then that it was found."""

    def script(asked: Asked) -> Told:
        said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
        return FOUND if said else first

    return script


async def unchanged(self: Any, response: Any, **_: Any) -> Any:
    return response


async def never(self: Any, **_: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_of_which_only_signs_of_life_were_sent_ends_with_its_failure(
    redis_url: str, surface: Surface, mode: Mode
):
    pinged = asyncio.Event()

    async def script(asked: Asked) -> Told:
        await pinged.wait()
        return fails(429, "rate_limit_error", "too many")

    async with (
        whole(redis_url, script, answering(), told=QUICK, protocol=surface) as gateway,
        gateway.client.stream(
            "POST",
            PATHS[surface],
            json=body_of(surface, stream=True),
            headers={"x-loopmill-streaming": mode.value},
        ) as answer,
    ):
        came = ""
        async for chunk in answer.aiter_text():
            pinged.set()
            came += chunk

    assert '"rate_limit_error"' in came


def wrapping(*given: Any) -> Any:
    """Return a callback that gives these in the place of a stream's chunks."""

    async def wrap(self: Any, response: AsyncIterator[Any], **_: Any) -> AsyncIterator[Any]:
        async for _each in response:
            for one in given:
                yield one

    return answering(async_post_call_streaming_iterator_hook=wrap)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("given", [None, 5, object()])
async def test_a_callback_that_gives_no_chunk_is_told_in_the_words_of_the_protocol(
    redis_url: str, surface: Surface, given: object
):
    async with whole(redis_url, FOUND, wrapping(given), protocol=surface) as gateway:
        answer = await gateway.post(surface, stream=True)

    assert "a callback that wraps a stream gave" in answer.text
    assert '"error"' in answer.text


async def test_a_callback_may_leave_nothing_of_a_stream(redis_url: str):
    async with whole(redis_url, FOUND, wrapping()) as gateway:
        answer = await gateway.post(MESSAGES, stream=True)

    assert (answer.status_code, answer.text) == (200, "")


async def test_a_callback_that_wraps_a_stream_and_raises_at_once_gives_its_status(redis_url: str):
    async def wrap(self: Any, response: AsyncIterator[Any], **_: Any) -> AsyncIterator[Any]:
        raise PermissionError("not you")
        yield

    callback = answering(async_post_call_streaming_iterator_hook=wrap)
    async with whole(redis_url, FOUND, callback) as gateway:
        answer = await gateway.post(MESSAGES, stream=True)

    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "PermissionError: not you"


@pytest.mark.parametrize(("surface", "mode", "streams"), WATCHED)
async def test_a_last_reply_that_a_callback_looks_at_is_told_and_counted_once(
    surface: Surface, mode: Mode, streams: bool
):
    more: Raw = {"stream_options": {"include_usage": True}} if streams and surface is CHAT else {}
    posting = answering(async_post_agentic_loop_response_hook=unchanged)
    again = always(OURS)

    told = [
        await ask(again, each, surface=surface, mode=mode, stream=streams, limit=1, **more)
        for each in (posting, answering())
    ]

    shown = told[0]
    if streams and mode is Mode.COMPATIBLE:
        assert shown.text == "and again. "
    else:
        assert shown.content == told[1].content
        assert shown.body["usage"] == told[1].body["usage"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_end_by_a_callback_that_looks_at_it_counts_the_reply_once(surface: Surface):
    ends = planning(terminate=True)
    type(ends).async_post_agentic_loop_response_hook = unchanged

    told = await ask(says("so. ", calls=[OURS]), ends, surface=surface, mode=Mode.MERGED)

    assert told.text == "so. "
    assert 10 in told.body["usage"].values()


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_of_the_same_id_are_told_apart_by_their_names(surface: Surface):
    both = [Called("ours", {}, "same"), Called("clients", {"path": "a"}, "same")]

    told = await ask(first_then_found(says(calls=both)), answering(), surface=surface)

    assert told.content == [("text", "found it"), ("tool_use", "clients")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [[], {}])
async def test_a_block_whose_number_is_none_is_a_block_all_the_same(mode: Mode, index: object):
    rows = changed(
        message_rows(says(calls=[OURS])), lambda t: {**t, "index": index} if "index" in t else t
    )

    told = await ask(first_then_found(sent(rows)), answering(), mode=mode, stream=True)

    assert told.text == "found it"


async def test_events_that_do_not_say_their_type_end_as_a_reply_that_broke_off():
    rows = changed(message_rows(says(calls=[OURS])), lambda t: {**t, "type": None})

    told = await ask(sent(rows), answering(), mode=Mode.MERGED, stream=True)

    assert told.rows[-1][0] == "error"


def text_first(told: Raw) -> Raw:
    """Return an event with its text before all else."""
    if "delta" not in told or "text" not in told["delta"]:
        return told
    return {"delta": {"text": "content_block_start message_start"}, **told}


def type_last(told: Raw) -> Raw:
    return {name: each for name, each in told.items() if name != "type"} | {"type": told["type"]}


@pytest.mark.parametrize("change", [text_first, type_last])
async def test_a_call_that_was_taken_up_is_not_seen_last_however_events_are_written(
    change: Callable[[Raw], Raw],
):
    rows = changed(message_rows(says("x" * 99, calls=[OURS])), change)
    nameless = [("", data) for _, data in rows]

    told = await ask(sent(nameless), answering(), stream=True, limit=1)

    assert (told.body["id"], told.body["model"]) == ("msg_1_end", "m-1")
    assert told.content == []


@pytest.mark.parametrize("content", ["found it", ["found it"], [{"type": ["text"]}, None]])
async def test_a_body_with_odd_content_is_told_after_another_round(content: object):
    odd = {**message(FOUND), "content": content}

    def script(asked: Asked) -> Told:
        said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
        return body(odd) if said else says(calls=[OURS])

    told = await ask(script, answering())

    assert told.failure is None
    assert told.body["usage"]["input_tokens"] == 20


async def test_the_end_of_an_earlier_round_is_not_that_of_the_last_one():
    rows = [row for row in completion_rows(FOUND) if '"finish_reason":"stop"' not in row[1]]

    def script(asked: Asked) -> Told:
        said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
        return sent(rows) if said else says(calls=[OURS])

    told = await ask(script, answering(), surface=CHAT, mode=Mode.MERGED, stream=True)

    assert told.body["choices"][0]["finish_reason"] != "tool_calls"


async def test_counting_tokens_is_no_stream_whatever_the_body_says(redis_url: str):
    async with whole(redis_url, FOUND) as gateway:
        counted = body_of(MESSAGES, stream=True)
        answer = await gateway.client.post("/v1/messages/count_tokens", json=counted)

    assert answer.json() == {"input_tokens": 10}


async def test_a_header_that_cannot_go_on_is_the_callers_mistake(redis_url: str):
    headers = {b"anthropic-beta": "é".encode("latin-1")}

    async with whole(redis_url, FOUND) as gateway:
        answer = await gateway.client.post("/v1/messages", json=body_of(MESSAGES), headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("anthropic-beta: ")


async def test_a_header_that_comes_twice_goes_on_whole(redis_url: str):
    headers = [("anthropic-beta", "one"), ("anthropic-beta", "two")]

    async with whole(redis_url, FOUND) as gateway:
        await gateway.client.post("/v1/messages", json=body_of(MESSAGES), headers=headers)

    assert gateway.up.requests[0].headers["anthropic-beta"].replace(" ", "") == "one,two"


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_is_no_http_tells_no_address(streams: bool):
    long = Answer([b"{}"], headers={"x-long": "a" * 20_000})

    told = await ask(long, stream=streams)

    assert told.failure.status == 502
    assert "127.0.0.1" not in f"{told.failure} {told.error}"


async def test_a_status_that_is_none_is_told_as_a_bad_gateway():
    told = await ask(Answer([b"{}"], status=999, kind="application/json"))

    assert told.failure.status == 502


def http(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text)


class Smuggler:
    """Answers each request of a connection, and once more when its answer was read."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(http(b"asked for"))
                await self.read.wait()
                writer.write(http(b"smuggled"))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.open -= 1


async def test_what_nobody_has_asked_for_is_no_answer_to_the_next_request():
    smuggler = Smuggler()

    async with await asyncio.start_server(smuggler.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with new_client() as client, new_client() as other:
            first = await client.get(url)
            smuggler.read.set()
            # What goes to and fro on another connection takes longer than what was sent before.
            await other.get(url)
            second = await client.get(url)
        await wait_until(lambda: not smuggler.open)

    assert (first.text, second.text) == ("asked for", "asked for")


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_error_in_a_live_stream_shows_no_key(surface: Surface):
    error = {"type": "error", "error": {"type": "api_error", "message": f"bad key {KEY}"}}
    rows = message_rows(FOUND) if surface is MESSAGES else completion_rows(FOUND)
    broken = [*rows[:3], ("error" if surface is MESSAGES else "", orjson.dumps(error).decode())]

    told = await ask(sent(broken), surface=surface, stream=True)

    assert "bad key [key]" in told.rows[-1][1]
    assert KEY not in str(told.rows)


ENDLESS = (
    "async_should_run_agentic_loop",
    "async_post_agentic_loop_response_hook",
    "async_agentic_loop_cleanup_hook",
    "async_log_success_event",
)


@pytest.mark.parametrize("method", ENDLESS)
async def test_a_method_of_a_callback_that_does_not_end_holds_nobody_up(method: str):
    async with asyncio.timeout(5):
        told = await ask(TWO, answering(**{method: never}), settings=QUICK)

    assert told.failure is None
    assert told.text


@pytest.mark.parametrize("method", ["async_post_call_failure_hook", "async_log_failure_event"])
async def test_a_method_that_hears_of_a_failure_and_does_not_end_holds_nobody_up(method: str):
    async with asyncio.timeout(5):
        told = await ask(fails(400, text="no"), answering(**{method: never}), settings=QUICK)

    assert (told.failure.status, told.failure.message) == (400, "no")


async def test_who_has_no_worker_is_told_so_when_the_wait_is_over(redis_url: str):
    waits = GatewaySettings(wait=timedelta(milliseconds=200))
    clock = asyncio.get_running_loop().time

    async with whole(redis_url, FOUND, told=waits, workers=0) as gateway:
        began = clock()
        answer = await gateway.post(MESSAGES)

    assert answer.status_code == 503
    assert clock() - began < 1.0


async def test_a_failure_behind_a_callbacks_own_preface_is_told(redis_url: str):
    async def wrap(self: Any, response: AsyncIterator[Any], **_: Any) -> AsyncIterator[Any]:
        yield b"event: mine\ndata: {}\n\n"
        async for each in response:
            yield each

    callback = answering(async_post_call_streaming_iterator_hook=wrap)
    async with whole(redis_url, fails(400, "bad", "no"), callback) as gateway:
        answer = await gateway.post(MESSAGES, stream=True)

    assert [name for name, _ in frames_of(answer.text)] == ["mine", "error"]
