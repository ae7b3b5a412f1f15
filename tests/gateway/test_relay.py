"""Models behind a gateway: passed on word for word, or told in the caller's protocol."""

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest

from loops.errors import (
    Incomplete,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Timeout,
    Unauthorized,
    Unavailable,
)
from loops.gateway.chat_fold import fold_chat
from loops.gateway.message_fold import fold_message
from loops.gateway.relay import RelayPort
from loops.gateway.rounds import Surface
from loops.gateway.rows import BODY, Row, Unpacker
from loops.messages import Usage
from loops.model import MeteredPort, ModelPort, ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.deployment import DeployedModel, Deployment, Price
from loops.providers.exchange import new_client
from loops.providers.openai import OpenAIModel
from loops.providers.scripted import call as scripted_call
from loops.providers.scripted import scripted
from loops.reply import Frames, ModelEvent, StreamEnd, StreamStart
from loops.testing import wait_until
from tests.gateway.upstream import (
    Reply,
    Told,
    Upstream,
    call,
    completion,
    completion_rows,
    fails,
    in_turn,
    message,
    message_rows,
    says,
    upstream,
)
from tests.loops.providers.service import Answer

CHAT, MESSAGES = Surface.CHAT, Surface.MESSAGES
FOLDS = {MESSAGES: fold_message, CHAT: fold_chat}
BODIES = {MESSAGES: message, CHAT: completion}
ROWS = {MESSAGES: message_rows, CHAT: completion_rows}

Raw = dict[str, Any]

REPLY = says("let me see: näh 🎉", thinking="hmm", calls=[call("search", q="ä", n=[1, {"a": 2}])])


def model_at(up: Upstream, protocol: Surface, **options: Any) -> ModelPort:
    if protocol is MESSAGES:
        return AnthropicModel("m-real", base_url=up.url, api_key="sk-canary", **options)
    return OpenAIModel("m-real", base_url=up.openai_url, api_key="sk-canary", **options)


def body_of(surface: Surface, **more: Any) -> Raw:
    options = {"stream_options": {"include_usage": True}} if surface is CHAT else {"max_tokens": 99}
    return {"model": "alias", "messages": [{"role": "user", "content": "hi"}], **options, **more}


def request(body: Raw, **params: Any) -> ModelRequest:
    told = {"headers": {}, "streams": True, "is_live": True, "operation": "create", **params}
    return ModelRequest("alias", (), params={"body": body, **told})


Seen = tuple[list[Row], StreamEnd | None, ProviderError | None]


async def seen_of(port: ModelPort, asked: ModelRequest) -> Seen:
    """Return the rows of a reply, its end, and what it fails with."""
    rows, unpacker, events = list[Row](), Unpacker(), list[ModelEvent]()
    try:
        async for event in ask(port, asked):
            events.append(event)
            rows += unpacker.feed(event) if isinstance(event, Frames) else ()
    except ProviderError as error:
        return rows, None, error
    starts = [place for place, event in enumerate(events) if isinstance(event, StreamStart)]
    assert starts == [0]
    assert isinstance(events[-1], StreamEnd)
    return rows, events[-1], None


async def relayed(
    told: Told, surface: Surface, protocol: Surface, *, body: Raw | None = None, **params: Any
) -> Seen:
    async with upstream(told) as up:
        port = RelayPort(model_at(up, protocol), surface)
        return await seen_of(port, request(body or body_of(surface), **params))


@pytest.mark.parametrize("by_byte", [False, True], ids=["by frames", "by bytes"])
@pytest.mark.parametrize("surface", list(Surface))
async def test_the_rows_of_a_provider_of_the_protocol_are_its_own(surface: Surface, by_byte: bool):
    told = says(REPLY.text, thinking="hmm", calls=REPLY.calls, by_byte=by_byte)

    rows, end, error = await relayed(told, surface, surface)

    assert rows == ROWS[surface](told)
    assert error is None
    assert end == StreamEnd("tool_use", usage=_usage(surface))


def _usage(surface: Surface) -> Usage:
    read = 0 if surface is CHAT else None
    return Usage(input_tokens=10, output_tokens=5, cache_read_tokens=read)


@pytest.mark.parametrize("surface", list(Surface))
async def test_a_whole_reply_of_the_protocol_is_one_row_word_for_word(surface: Surface):
    rows, end, _ = await relayed(REPLY, surface, surface, streams=False)

    assert rows == [(BODY, orjson.dumps(BODIES[surface](REPLY)).decode())]
    assert end == StreamEnd("tool_use", usage=_usage(surface))


@pytest.mark.parametrize("surface", list(Surface))
async def test_a_request_is_passed_on_but_for_model_and_key(surface: Surface):
    body = body_of(surface, novel={"a": 1}, stream=True, temperature=0.3)
    headers = {"anthropic-beta": "b-1", "anthropic-version": "2099-01-01", "cookie": "c"}

    async with upstream(REPLY) as up:
        port = RelayPort(model_at(up, surface, headers={"x-own": "1"}), surface)
        await seen_of(port, request(body, headers=headers))

    asked = up.requests[0]
    assert asked.body == body | {"model": "m-real"}
    assert list(asked.body) == list(body)
    assert "cookie" not in asked.headers
    assert asked.headers["x-own"] == "1"
    assert asked.headers.get("anthropic-beta") == ("b-1" if surface is MESSAGES else None)
    assert asked.headers.get("anthropic-version") == ("2099-01-01" if surface is MESSAGES else None)
    key = asked.headers.get("x-api-key") or asked.headers["authorization"].removeprefix("Bearer ")
    assert key == "sk-canary"


async def test_betas_of_the_caller_stand_beside_ours():
    async with upstream(REPLY) as up:
        model = model_at(up, MESSAGES, headers={"anthropic-beta": "own-1"})
        port = RelayPort(model, MESSAGES)
        await seen_of(port, request(body_of(MESSAGES), headers={"anthropic-beta": "b-1, own-1"}))

    assert up.requests[0].headers["anthropic-beta"] == "own-1,b-1"
    assert up.requests[0].headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "whole"])
@pytest.mark.parametrize(("surface", "protocol"), [(MESSAGES, CHAT), (CHAT, MESSAGES)])
async def test_a_provider_of_the_other_protocol_says_the_same(
    surface: Surface, protocol: Surface, streams: bool
):
    rows, end, error = await relayed(REPLY, surface, protocol, streams=streams)

    told = FOLDS[surface](rows)
    assert error is None
    assert end is not None
    assert end.stop_reason == "tool_use"
    assert (rows[0][0] == BODY) is not streams
    assert told["model"] == "alias"
    assert _said(surface, told) == (REPLY.text, "search", {"q": "ä", "n": [1, {"a": 2}]})
    names = ("input_tokens", "output_tokens") if surface is MESSAGES else _CHAT_NAMES
    assert [told["usage"][name] for name in names] == [10, 5]


_CHAT_NAMES = ("prompt_tokens", "completion_tokens")


def _said(surface: Surface, body: Raw) -> tuple[str, str, Any]:
    if surface is MESSAGES:
        texts = [block["text"] for block in body["content"] if block["type"] == "text"]
        use = next(block for block in body["content"] if block["type"] == "tool_use")
        return "".join(texts), use["name"], use["input"]
    said = body["choices"][0]["message"]
    function = said["tool_calls"][0]["function"]
    return said["content"], function["name"], orjson.loads(function["arguments"])


async def test_any_port_answers_in_the_callers_protocol():
    model = scripted(["hello", scripted_call("search", q="x")])

    for surface in Surface:
        rows, end, _ = await seen_of(RelayPort(model, surface), request(body_of(surface)))

        assert _said(surface, FOLDS[surface](rows)) == ("hello", "search", {"q": "x"})
        assert end is not None
        assert end.stop_reason == "tool_use"


async def test_a_conversation_is_played_alike_by_providers_of_both_protocols():
    turns = in_turn(says(calls=[call("search", q="x")]), says("found it"))
    use = {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
    follow_up = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    for protocol in Surface:
        async with upstream(turns) as up:
            port = RelayPort(model_at(up, protocol), MESSAGES)
            body = body_of(MESSAGES)
            first, _, _ = await seen_of(port, request(body))
            more = {"messages": [*body["messages"], *follow_up]}
            last, _, _ = await seen_of(port, request(body | more))

        assert fold_message(first)["content"][-1]["name"] == "search"
        assert fold_message(last)["content"] == [{"type": "text", "text": "found it"}]


# -- failures


@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "whole"])
@pytest.mark.parametrize("protocol", list(Surface))
@pytest.mark.parametrize("surface", list(Surface))
async def test_a_refusal_is_raised_with_what_the_provider_says(
    surface: Surface, protocol: Surface, streams: bool
):
    told = fails(429, "novel_limit", "slow down, sk-canary", retry_after="7")

    rows, _, error = await relayed(told, surface, protocol, streams=streams)

    assert rows == []
    assert isinstance(error, RateLimited)
    assert error.retry_after == timedelta(seconds=7)
    assert error.said == "slow down, [key]"
    assert error.kind == ("novel_limit" if surface is protocol else "")
    assert "canary" not in str(error)


HTML = b"<html>sk-canary</html>"


@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "whole"])
@pytest.mark.parametrize("surface", list(Surface))
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer([HTML], kind="text/html"), Unavailable),
        (Answer([], kind="application/json"), Unavailable),
        (Answer([b"{}"], kind="application/json"), Unavailable),
        (Answer([b"[1]"], kind="application/json"), Unavailable),
        (Answer([HTML], status=502, kind="text/html"), Unavailable),
        (Answer([], status=401), Unauthorized),
        (Answer([], status=302, headers={"location": "http://127.0.0.1:1/x"}), InvalidRequest),
        (Answer([b'{"error":{"type":"overloaded_error","message":"b"}}'],
                kind="application/json"), Overloaded),
        (Answer([], is_mute=True, breaks_off=True), Unavailable),
        (Answer([b'{"content":[],"choices":['], kind="application/json", breaks_off=True),
         Unavailable),
    ],
    ids=["html", "nothing", "no reply", "a list", "502", "401", "a redirect", "200 error", "mute",
         "half a reply"],
)  # fmt: skip
async def test_what_is_no_reply_is_a_failure_of_its_kind(
    answer: Answer, kind: type[ProviderError], surface: Surface, streams: bool
):
    rows, _, error = await relayed(answer, surface, surface, streams=streams)

    assert rows == []
    assert type(error) is kind
    assert "canary" not in f"{error}{error.said}"


@pytest.mark.parametrize("surface", list(Surface))
async def test_an_error_that_comes_first_is_raised(surface: Surface):
    _, _, error = await relayed(says(error_after=0), surface, surface)

    assert isinstance(error, ProviderError)
    assert error.said == "busy"
    assert error.kind == ("overloaded_error" if surface is MESSAGES else "server_error")


@pytest.mark.parametrize("surface", list(Surface))
async def test_an_error_in_the_middle_of_a_live_reply_is_passed_on_and_ends_it(surface: Surface):
    told = says("hello", error_after=4)

    rows, end, error = await relayed(told, surface, surface)

    assert rows[:4] == ROWS[surface](told)[:4]
    assert len(rows) == 5
    assert orjson.loads(rows[4][1])["error"]["message"] == "busy"
    assert error is None
    assert end is not None
    assert end.stop_reason == "cut"


CUTS = [says("hello you there", cut_after=4), says("hello you there", ends_after=4)]


@pytest.mark.parametrize("told", CUTS, ids=["the connection breaks", "the answer ends"])
@pytest.mark.parametrize("protocol", list(Surface))
@pytest.mark.parametrize("surface", list(Surface))
async def test_a_live_reply_that_breaks_off_says_so_in_its_last_row(
    surface: Surface, protocol: Surface, told: Reply
):
    rows, end, error = await relayed(told, surface, protocol)

    name, text = rows[-1]
    assert error is None
    assert end is not None
    assert end.stop_reason == "cut"
    assert name == ("error" if surface is MESSAGES else "")
    assert orjson.loads(text)["error"]["message"]
    assert ("message_stop" in dict(rows), ("", "[DONE]") in rows) == (False, False)


@pytest.mark.parametrize("told", [*CUTS, says("hello", error_after=4)])
@pytest.mark.parametrize("protocol", list(Surface))
@pytest.mark.parametrize("surface", list(Surface))
async def test_a_reply_that_nobody_sees_yet_fails_as_a_whole(
    surface: Surface, protocol: Surface, told: Reply
):
    _, end, error = await relayed(told, surface, protocol, is_live=False)

    assert end is None
    assert error is not None
    assert error.retryable


async def test_what_a_broken_reply_has_cost_is_known():
    rows, end, _ = await relayed(says("hello you", cut_after=4), MESSAGES, MESSAGES)

    assert rows[0][0] == "message_start"
    assert end is not None
    assert end.usage == Usage(input_tokens=10, output_tokens=1)


async def test_a_chat_is_whole_when_the_reason_of_its_end_was_told():
    told = says("hello")
    rows = completion_rows(told)
    reason = next(n for n, row in enumerate(rows) if '"finish_reason":"stop"' in row[1])

    seen, end, _ = await relayed(says("hello", ends_after=reason + 1), CHAT, CHAT)

    assert seen == rows[: reason + 1]
    assert end == StreamEnd("end_turn")


async def test_a_provider_cannot_say_that_it_was_cut():
    for surface in Surface:
        _, end, _ = await relayed(says("hello", stop_reason="cut"), surface, surface)

        assert end is not None
        assert end.stop_reason == "end_turn"


@pytest.mark.parametrize("data", [b"{broken", b"[1]", b"null"])
async def test_a_row_that_is_no_object_breaks_the_reply(data: bytes):
    for surface in Surface:
        answer = Answer([b"data: %b\n\n" % data])

        _, _, error = await relayed(answer, surface, surface)

        assert isinstance(error, Unavailable)


async def test_halves_of_characters_are_rows_that_anybody_can_read():
    text = '{"type":"novel","text":"\\ud83d"}'
    end = '{"type":"message_stop"}'
    frames = f"event: novel\ndata: {text}\n\nevent: message_stop\ndata: {end}\n\n"

    rows, _, _ = await relayed(Answer([frames.encode()]), MESSAGES, MESSAGES)

    assert orjson.loads(rows[0][1]) == {"type": "novel", "text": "\ufffd"}
    assert rows[1] == ("message_stop", end)


# -- how it comes


@pytest.mark.parametrize("protocol", list(Surface))
@pytest.mark.parametrize("surface", list(Surface))
async def test_rows_come_as_soon_as_they_are_there(surface: Surface, protocol: Surface):
    gate = asyncio.Event()
    async with upstream(says("hello you", gates={4: gate})) as up:
        reply = ask(RelayPort(model_at(up, protocol), surface), request(body_of(surface)))
        seen = [await anext(reply), await anext(reply)]
        gate.set()
        seen += [event async for event in reply]

    assert [type(event) for event in seen[:2]] == [StreamStart, Frames]
    assert isinstance(seen[-1], StreamEnd)


async def test_the_connection_is_closed_with_the_reply():
    async with upstream(says("hello", gates={4: asyncio.Event()})) as up, new_client() as client:
        reply = ask(RelayPort(model_at(up, CHAT, client=client), CHAT), request(body_of(CHAT)))
        await anext(reply)
        await reply.aclose()

        await wait_until(lambda: up.left == 1)


async def test_one_client_carries_one_request_after_the_other():
    async with upstream(REPLY) as up, new_client() as client:
        for surface in Surface:
            port = RelayPort(model_at(up, surface, client=client), surface)
            for streams in (True, False):
                await seen_of(port, request(body_of(surface), streams=streams))

    assert (len(up.requests), up.connections) == (4, 1)


async def test_silence_for_too_long_is_a_failure():
    for surface in Surface:
        async with upstream(says("hello you there", gates={4: asyncio.Event()})) as up:
            port = RelayPort(model_at(up, surface, idle=timedelta(seconds=0.1)), surface)
            rows, end, _ = await seen_of(port, request(body_of(surface)))

        assert end is not None
        assert (end.stop_reason, len(rows)) == ("cut", 5)


# -- what was configured


def deployed(up: Upstream, protocol: Surface, **options: Any) -> RelayPort:
    vendor, url = ("anthropic", up.url) if protocol is MESSAGES else ("openai", up.openai_url)
    told = Deployment(f"{vendor}/m-real", base_url=url, api_key="sk-canary", **options)
    return RelayPort(DeployedModel(told), MESSAGES)


@pytest.mark.parametrize("protocol", list(Surface))
async def test_price_and_limit_of_a_configured_model_hold(protocol: Surface):
    async with upstream(REPLY) as up:
        port = deployed(up, protocol, price=Price(1.0, 2.0), max_tokens=77, max_agentic_loops=5)
        body = {name: told for name, told in body_of(MESSAGES).items() if name != "max_tokens"}
        _, end, _ = await seen_of(port, request(body))

    assert end is not None
    assert end.usage is not None
    assert end.usage.cost == pytest.approx((10 + 2 * 5) / 1_000_000)
    assert up.requests[0].body["max_tokens"] == 77
    assert (port.most_loops, port.protocol) == (5, protocol)
    assert isinstance(port, MeteredPort)


@pytest.mark.parametrize("protocol", list(Surface))
async def test_a_configured_model_may_not_take_too_long(protocol: Surface):
    async with upstream(says("hello", gates={0: asyncio.Event()})) as up:
        port = deployed(up, protocol, timeout=timedelta(seconds=0.1))

        _, _, error = await seen_of(port, request(body_of(MESSAGES)))

    assert isinstance(error, Timeout)


@pytest.mark.parametrize("protocol", list(Surface))
async def test_time_that_runs_out_after_a_row_is_a_row_too(protocol: Surface):
    async with upstream(says("hello you there", gates={4: asyncio.Event()})) as up:
        port = deployed(up, protocol, timeout=timedelta(seconds=0.1), price=Price(1.0, 2.0))

        rows, end, _ = await seen_of(port, request(body_of(MESSAGES)))

    assert orjson.loads(rows[-1][1])["error"]["type"] == "timeout_error"
    assert end is not None
    assert end.stop_reason == "cut"


# -- counting


async def test_tokens_are_counted_by_a_provider_of_the_protocol():
    body = body_of(MESSAGES, stream=True)

    async with upstream(says(usage=(42, 0))) as up:
        port = RelayPort(model_at(up, MESSAGES), MESSAGES)
        rows, end, _ = await seen_of(port, request(body, operation="count_tokens"))

    assert rows == [(BODY, '{"input_tokens":42}')]
    assert end is not None
    assert end.usage is None
    assert up.requests[0].path == "/v1/messages/count_tokens"
    assert "stream" not in up.requests[0].body


async def test_tokens_are_guessed_where_nobody_counts_them():
    tool = {"name": "search", "description": "looks for it", "input_schema": {"type": "object"}}
    async with upstream(REPLY) as up:
        port = RelayPort(model_at(up, CHAT), MESSAGES)
        small = await seen_of(port, request(body_of(MESSAGES), operation="count_tokens"))
        body = body_of(MESSAGES, system="be kind", tools=[tool])
        large = await seen_of(port, request(body, operation="count_tokens"))

    counts = [orjson.loads(rows[0][1])["input_tokens"] for rows, _, _ in (small, large)]
    assert 0 < counts[0] < counts[1] < 100
    assert up.requests == []


async def test_chat_completions_have_nothing_that_counts():
    _, _, error = await relayed(REPLY, CHAT, CHAT, operation="count_tokens")

    assert isinstance(error, InvalidRequest)


async def test_a_provider_is_left_with_the_reply():
    async with upstream(says("hello", gates={4: asyncio.Event()})) as up:
        reply = ask(RelayPort(model_at(up, MESSAGES), MESSAGES), request(body_of(MESSAGES)))
        await anext(reply)
        await reply.aclose()

        await wait_until(lambda: up.left == 1, for_="the connection to be closed")


async def test_incomplete_is_what_a_reply_is_that_ends_too_early():
    _, _, error = await relayed(says("x", ends_after=3), MESSAGES, MESSAGES, is_live=False)

    assert isinstance(error, Incomplete)
