"""Chat Completions over real HTTP."""

from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest

from loops.errors import (
    AgentError,
    ContextTooLong,
    InvalidRequest,
    RateLimited,
    SetupError,
)
from loops.fold import fold
from loops.messages import Messages
from loops.model import ModelRequest, ask
from loops.providers import exchange
from loops.providers.openai import OpenAIModel
from loops.reply import ModelEvent, StreamEnd
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.anthropic_wires import cut
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, Service, serving

KEY = "sk-canary-1234"
JSON = "application/json"
WHOLE = wires.reply(wires.said("a"), wires.calls(call(0, "c", "f", '{"x":1}')), reason="tool_calls")


async def reply(service: Service, **options: Any) -> list[ModelEvent]:
    given = {"base_url": f"{service.url}/v1", "api_key": KEY, **options}
    request = ModelRequest(model="openai/gpt-x", messages=tuple(Messages.of("hi")))
    return [event async for event in ask(OpenAIModel("gpt-x", **given), request)]


async def failing(*answers: Answer) -> AgentError:
    async with serving(*answers) as service:
        with pytest.raises(AgentError) as caught:
            await reply(service)
    assert KEY not in repr(caught.value) + str(caught.value)
    return caught.value


def refusal(text: str, status: int = 400, **others: Any) -> Answer:
    told = orjson.dumps({"error": {"message": text, "type": "invalid_request_error", **others}})
    return Answer([told], status=status, kind=JSON)


async def test_a_reply_comes_as_events_and_its_message() -> None:
    async with serving(Answer(cut(WHOLE, range(0, len(WHOLE), 41)))) as service:
        events = await reply(service)

    assert fold(events).text == "a"
    assert [each.input for each in fold(events).tool_calls] == [{"x": 1}]
    assert isinstance(events[-1], StreamEnd)
    assert service.asked[0].path == "/v1/chat/completions"
    assert service.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert service.asked[0].body["model"] == "gpt-x"


async def test_a_service_that_only_speaks_the_protocol_gets_its_first_words() -> None:
    async with serving(Answer([WHOLE])) as service:
        model = OpenAIModel("gpt-x", base_url=f"{service.url}/v1", api_key=KEY)
        asked = ModelRequest(model="m", messages=tuple(Messages.of("hi")), system="s", max_tokens=5)
        [event async for event in ask(model, asked)]

    assert service.asked[0].body["messages"][0]["role"] == "system"
    assert service.asked[0].body["max_tokens"] == 5


async def test_a_connection_carries_one_reply_after_the_other() -> None:
    async with serving(Answer([WHOLE])) as service, httpx.AsyncClient() as client:
        for _ in range(3):
            await reply(service, client=client)

    assert service.connections == 1


async def test_a_told_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PATIENCE", timedelta(milliseconds=100))
    part = wires.said("a") + wires.chunk(reason="stop")
    async with serving(Answer([part], hangs=True)) as service:
        assert fold(await reply(service)).text == "a"


async def test_what_is_refused_for_anything_else_is_not_asked_again() -> None:
    async with serving(refusal("no")) as service:
        with pytest.raises(InvalidRequest):
            await reply(service)

    assert len(service.asked) == 1


async def test_what_breaks_off_after_its_reason_is_whole() -> None:
    part = wires.said("a") + wires.chunk(reason="stop")
    async with serving(Answer([part], breaks_off=True)) as service:
        assert fold(await reply(service)).text == "a"


async def test_a_limit_is_a_limit_and_a_long_request_is_one() -> None:
    limited = await failing(refusal("slow down", status=429))
    too_long = await failing(
        refusal("maximum context length is 429 tokens, you requested 5000 tokens", status=429)
    )

    assert isinstance(limited, RateLimited)
    assert isinstance(too_long, ContextTooLong)
    assert (too_long.limit, too_long.sent) == (429, 5000)


def test_without_a_key_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(SetupError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt-x")


async def test_a_service_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serving(Answer([WHOLE])) as service:
        await reply(service, api_key=None)

    assert "authorization" not in service.asked[0].headers


async def test_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Answer([WHOLE])) as service:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
        await reply(service, base_url=None, api_key=None)

    assert service.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_no_key_is_shown() -> None:
    assert KEY not in repr(OpenAIModel("gpt-x", api_key=KEY))
