"""Anthropic's models over real HTTP."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from loops.blocks import TextBlock
from loops.errors import (
    AgentError,
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    Overloaded,
    RateLimited,
    SetupError,
    Unavailable,
)
from loops.fold import fold
from loops.messages import Message, Messages
from loops.model import ModelRequest, ask
from loops.providers import exchange
from loops.providers.anthropic import AnthropicModel
from loops.reply import ModelEvent, StreamEnd, StreamStart
from tests.loops.providers import anthropic_wires as wires
from tests.loops.providers.service import Answer, Service, serving

KEY = "sk-canary-1234"


def model(service: Service, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-x", base_url=service.url, api_key=KEY, **options)


def request(*messages: Any) -> ModelRequest:
    return ModelRequest(model="anthropic/claude-x", messages=tuple(Messages.of(messages or ["hi"])))


async def reply(service: Service, *, client: httpx.AsyncClient | None = None) -> list[ModelEvent]:
    return [event async for event in ask(model(service, client=client), request())]


async def failing(*answers: Answer) -> AgentError:
    async with serving(*answers) as service:
        with pytest.raises(AgentError) as caught:
            await reply(service)
    assert KEY not in repr(caught.value) + str(caught.value)
    return caught.value


async def test_a_reply_comes_as_events_and_its_message() -> None:
    whole = wires.reply(wires.said(0, "a ", "place"), wires.called(1, "look", '{"x":1}'),
                        stop_reason="tool_use")  # fmt: skip
    async with serving(Answer(wires.cut(whole, range(0, len(whole), 37)))) as service:
        events = await reply(service)

    assert events[0] == StreamStart(model="claude-x")
    assert isinstance(events[-1], StreamEnd)
    assert events[-1].stop_reason == "tool_use"
    assert fold(events).text == "a place"
    assert [call.input for call in fold(events).tool_calls] == [{"x": 1}]


async def test_the_request_carries_key_version_and_path() -> None:
    async with serving(Answer([wires.reply(wires.said(0, "a"))])) as service:
        await reply(service)

    [asked] = service.asked
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert asked.body["model"] == "claude-x"
    assert asked.body["stream"] is True


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", InvalidRequest),
        (429, "rate_limit_error", RateLimited),
        (500, "api_error", Unavailable),
        (529, "overloaded_error", Overloaded),
    ],
)
async def test_a_refused_request_is_an_error(
    status: int, kind: str, error: type[AgentError]
) -> None:
    body = b'{"type":"error","error":{"type":"%b","message":"no"}}' % kind.encode()

    found = await failing(
        Answer([body], status=status, kind="application/json", headers={"retry-after": "3"})
    )

    assert type(found) is error
    if isinstance(found, RateLimited):
        assert found.retry_after == timedelta(seconds=3)


async def test_a_request_that_is_too_long_names_limit_and_size() -> None:
    text = "prompt is too long: 205429 tokens > 200000 maximum"
    body = (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"%b"}}' % text.encode()
    )

    error = await failing(Answer([body], status=400, kind="application/json"))

    assert isinstance(error, ContextTooLong)
    assert (error.limit, error.sent) == (200000, 205429)


async def test_what_came_before_a_failure_is_given_before_it() -> None:
    seen: list[ModelEvent] = []
    together = wires.started() + wires.said(0, "a") + wires.failed("overloaded_error")

    async def read(events: AsyncIterator[ModelEvent]) -> None:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - a list made at once would be lost with the failure

    async with serving(Answer([together])) as service:
        with pytest.raises(Overloaded):
            await read(ask(model(service), request()))

    assert fold(seen).text == "a"


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}]}',
        b'{"object":"chat.completion","choices":[{"message":{"content":"a"}}]}',
        b'{"object":"response","status":"completed","error":null,"output":[]}',
    ],
    ids=["messages", "chat completions", "responses"],
)
async def test_a_whole_reply_where_a_stream_was_asked_for_is_called_that(body: bytes) -> None:
    error = await failing(Answer([body], kind="application/json"))

    assert isinstance(error, Unavailable)
    assert str(error).endswith("answered with application/json, and not with a stream")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"detail":"no such model"}', Unavailable),
        (b'{"error":{"code":429}}', RateLimited),
        (b'{"error":{"code":"context_length_exceeded"}}', ContextTooLong),
    ],
    ids=["in words", "by a status", "by a kind"],
)
async def test_a_refusal_that_claims_success_is_one(body: bytes, kind: type) -> None:
    error = await failing(Answer([body], kind="application/json"))

    assert type(error) is kind
    assert "not with a stream" not in str(error)


WHOLE = wires.reply(wires.said(0, "a"), wires.called(1, "look", '{"x":1}'))


@pytest.mark.parametrize("length", [0, 40, len(WHOLE) // 2, len(WHOLE) - 1])
@pytest.mark.parametrize("breaks_off", [True, False], ids=["cut", "ended"])
async def test_a_reply_without_its_end_is_none(length: int, breaks_off: bool) -> None:
    chunks = [WHOLE[:length]] if length else []

    error = await failing(Answer(chunks, breaks_off=breaks_off))

    assert isinstance(error, (Incomplete, Unavailable))
    assert error.retryable


async def test_a_redirect_is_not_followed() -> None:
    error = await failing(
        Answer(status=302, kind="text/html", headers={"location": "http://127.0.0.1:1/"})
    )

    assert isinstance(error, InvalidRequest)


async def test_a_connection_carries_one_reply_after_the_other() -> None:
    async with serving(Answer([WHOLE])) as service, httpx.AsyncClient() as client:
        for _ in range(3):
            await reply(service, client=client)

    assert service.connections == 1


def test_without_a_key_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    with pytest.raises(SetupError, match="ANTHROPIC_API_KEY"):
        AnthropicModel("claude-x")


@pytest.mark.parametrize("key", ["sk-canary\u00e9", "sk-\x00canary"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SetupError) as caught:
        AnthropicModel("claude-x", api_key=key)

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8000/v1", "http://[::1", "ftp://x", "http://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SetupError, match="an address begins with"):
        AnthropicModel("claude-x", base_url=address, api_key=KEY)


async def test_a_key_from_a_file_has_no_end_of_line() -> None:
    async with serving(Answer([WHOLE])) as service:
        named = AnthropicModel("claude-x", base_url=service.url, api_key=f"{KEY}\n")
        [event async for event in ask(named, request())]

    assert service.asked[0].headers["x-api-key"] == KEY


async def test_a_key_that_the_service_echoes_is_not_shown() -> None:
    body = b'{"type":"error","error":{"type":"authentication_error","message":"no: %b"}}'

    error = await failing(Answer([body % KEY.encode()], status=401, kind="application/json"))

    assert "[key]" in str(error)


@pytest.mark.parametrize(("breaks_off", "hangs"), [(True, False), (False, True)])
async def test_a_refusal_keeps_its_status_whatever_becomes_of_its_text(
    breaks_off: bool, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PATIENCE", timedelta(milliseconds=100))

    error = await failing(
        Answer([b'{"type":'], status=429, headers={"retry-after": "3"}, kind="application/json",
               breaks_off=breaks_off, hangs=hangs)
    )  # fmt: skip

    assert isinstance(error, RateLimited)
    assert error.retry_after == timedelta(seconds=3)


async def test_what_a_paused_reply_cost_is_all_of_it() -> None:
    paused = wires.reply(wires.said(0, "still"), stop_reason="pause_turn")
    async with serving(Answer([paused]), Answer([wires.reply(wires.said(0, "a"))])) as service:
        events = await reply(service)

    assert isinstance(events[-1], StreamEnd)
    assert events[-1].usage is not None
    assert (events[-1].usage.input_tokens, events[-1].usage.output_tokens) == (20, 40)


async def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Answer([WHOLE])) as service:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
        [event async for event in ask(AnthropicModel("claude-x"), request())]

    assert service.asked[0].headers["x-api-key"] == KEY


def test_no_key_is_shown() -> None:
    shown = AnthropicModel("claude-x", api_key=KEY)
    asked = exchange.Exchange("http://x", {"x-api-key": KEY}, b"")

    assert KEY not in repr(shown) + repr(asked)


async def test_a_whole_message_goes_back_as_it_came() -> None:
    whole = wires.reply(wires.thought(0, "hm", signature="s"), wires.said(1, "a"))
    async with serving(Answer([whole])) as service:
        said = fold(await reply(service))
        asked = request("hi", said, Message(role="user", content=[TextBlock(text="on")]))
        [event async for event in ask(model(service), asked)]

    assert service.asked[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "a"},
    ]
