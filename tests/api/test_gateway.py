"""The gateway over HTTP: what its callers get, on both paths, in all modes.

Where the cases of the gateway are tested, those of security among them:

| case | what | where |
|---|---|---|
| C156 gw/sequence | order of a stream's events | `test_gateway.py`, `tests/gateway/test_views.py` |
| C157 gw/ping | signs of life | `test_gateway.py`, `tests/gateway/test_on_workers.py` |
| C158 gw/error | failures, in the caller's words | `test_gateway_errors.py` |
| C160 gw/disconnect | callers who leave | `tests/gateway/test_on_workers.py` |
| C161 gw/limits | a model that never stops | `test_gateway.py` |
| C162 gw/parity | a stream is its body | `test_gateway.py`, `tests/gateway/test_views.py` |
| C164 gw/auth, T3 | both ways to show a key | `test_gateway_keys.py` |
| C165 gw/ssrf, S3, T4, T5 | who chooses the provider | `test_gateway_upstreams.py` |
| S4, T6 | names in requests | `test_gateway_names.py` |
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from loops.gateway.rounds import Mode
from tests.api.deployed import (
    CHAT,
    MESSAGES,
    PAIRS,
    ROUTES,
    Deployment,
    asking,
    check_is_refusal,
    deployed,
    joined,
    rows_of,
    tools_of,
)
from tests.gateway.upstream import call, completion_rows, in_turn, message, message_rows, says

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


LOOKED_UP = in_turn(
    says("let me look. ", calls=[call("look_up", q="x")]),
    says("and again. ", thinking="hm", calls=[call("look_up", q="y")]),
    says("found it"),
)


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_without_a_claimed_call_a_stream_is_the_providers_own(
    gateway: Deployment, path: str
) -> None:
    reply = says("hello there", thinking="hm", calls=[call("other", q="x")])
    gateway.plays(reply)

    answer = gateway.post(path, asking(path, stream=True, stream_options={"include_usage": True}))

    rows = message_rows(reply) if path == MESSAGES else completion_rows(reply)
    sent = "".join(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"
                   for name, text in rows)  # fmt: skip
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text == sent


def test_a_body_is_the_providers_own_with_the_runs_id_and_what_it_cost(gateway: Deployment) -> None:
    reply = says("hello")
    gateway.plays(reply)

    answer = gateway.post(MESSAGES, asking(MESSAGES))

    assert answer.json() == message(reply)
    assert answer.headers["x-request-id"].startswith("run_")
    assert answer.headers["x-loopmill-usage"] == '{"input_tokens":10,"output_tokens":5}'
    assert "x-loopmill-response-cost" not in answer.headers, "nobody has said what it costs"
    with gateway.client() as client:
        run = client.get(f"/v1/runs/{answer.headers['x-request-id']}").json()
    assert (run["status"], run["metadata"]["model"]) == ("completed", "claude")


@pytest.mark.parametrize(("path", "model"), PAIRS)
@pytest.mark.parametrize("mode", Mode)
def test_a_callback_answers_the_calls_of_a_body(
    gateway: Deployment, path: str, model: str, mode: str
) -> None:
    gateway.plays(LOOKED_UP)

    body = asking(path, model, **tools_of(path, "look_up"))
    answer = gateway.post(path, body, x_loopmill_streaming=mode)

    between = "\n\n" if path == CHAT else ""
    texts = f"let me look. {between}and again. {between}found it"
    texts = texts if mode == Mode.MERGED else "found it"
    assert (said_in(path, answer), claimed_in(path, answer)) == (texts, [])
    assert len(gateway.up.asked) == 3


def said_in(path: str, answer: httpx.Response) -> str:
    """Return the text of a body."""
    told = answer.json()
    if path == CHAT:
        return str(told["choices"][0]["message"]["content"])
    return "".join(each.get("text", "") for each in told["content"])


def claimed_in(path: str, answer: httpx.Response) -> list[Any]:
    """Return the calls of a body."""
    told = answer.json()
    if path == CHAT:
        return told["choices"][0]["message"].get("tool_calls") or []
    return [each for each in told["content"] if each["type"] == "tool_use"]


ONE_ENVELOPE = (Mode.MERGED, Mode.HOLD)


@pytest.mark.parametrize("model", ["claude", "gpt"])
@pytest.mark.parametrize("mode", ONE_ENVELOPE)
def test_a_stream_of_several_rounds_is_one_message_in_good_order(
    gateway: Deployment, model: str, mode: str
) -> None:
    """C156."""
    gateway.plays(LOOKED_UP)

    body = asking(MESSAGES, model, stream=True, **tools_of(MESSAGES, "look_up"))
    rows = rows_of(gateway.post(MESSAGES, body, x_loopmill_streaming=mode).text)

    names = [name for name, _ in rows if name != "ping"]
    assert (names[0], names.count("message_start")) == ("message_start", 1)
    assert (names[-1], names.count("message_stop")) == ("message_stop", 1)
    started = [data["index"] for name, data in rows if name == "content_block_start"]
    assert started == list(range(len(started)))
    for name, data in rows:
        assert name != "content_block_delta" or fits(rows, data), data


def fits(rows: list[tuple[str, Any]], delta: dict[str, Any]) -> bool:
    """Say whether a delta is one of its block's kind."""
    blocks = {data["index"]: data["content_block"]["type"] for name, data in rows
              if name == "content_block_start"}  # fmt: skip
    of = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
    return of.get(delta["delta"]["type"], "tool_use") == blocks[delta["index"]]


@pytest.mark.parametrize(("path", "model"), PAIRS)
@pytest.mark.parametrize("mode", ONE_ENVELOPE)
def test_a_stream_says_what_its_body_says(
    gateway: Deployment, path: str, model: str, mode: str
) -> None:
    """C162."""
    gateway.plays(LOOKED_UP)
    body = {**asking(path, model), **tools_of(path, "look_up")}
    if path == CHAT:
        body["stream_options"] = {"include_usage": True}

    plain = gateway.post(path, body, x_loopmill_streaming=mode)
    rows = rows_of(gateway.post(path, {**body, "stream": True}, x_loopmill_streaming=mode).text)

    assert joined(rows) == said_in(path, plain)
    told = plain.json()
    if path == MESSAGES:
        end = next(data for name, data in rows if name == "message_delta")
        assert end["delta"]["stop_reason"] == told["stop_reason"] == "end_turn"
        assert end["usage"]["output_tokens"] == told["usage"]["output_tokens"] == 15
    else:
        usage = next(data["usage"] for _, data in rows if data != "[DONE]" and data.get("usage"))
        assert usage["total_tokens"] == told["usage"]["total_tokens"] == 45


def test_in_compatible_a_further_round_is_a_message_of_its_own(gateway: Deployment) -> None:
    gateway.plays(LOOKED_UP)

    body = asking(MESSAGES, stream=True, **tools_of(MESSAGES, "look_up"))
    rows = rows_of(gateway.post(MESSAGES, body).text)

    ends = [data["delta"]["stop_reason"] for name, data in rows if name == "message_delta"]
    assert ends == ["tool_use", "tool_use", "end_turn"]
    assert [name for name, _ in rows].count("message_stop") == 3


def test_in_compatible_a_chats_stream_passes_its_callbacks_by(gateway: Deployment) -> None:
    gateway.plays(LOOKED_UP)

    body = asking(CHAT, stream=True, **tools_of(CHAT, "look_up"))
    answer = gateway.post(CHAT, body)

    assert "look_up" in answer.text
    assert len(gateway.up.asked) == 1


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("mode", ONE_ENVELOPE)
@pytest.mark.parametrize("stream", [True, False])
def test_a_model_that_never_stops_ends_in_a_valid_reply(
    gateway: Deployment, path: str, mode: str, stream: bool
) -> None:
    """C161: it is asked again three times, however it asks."""
    counts = iter(range(100))
    gateway.plays(lambda _: says("on ", calls=[call("look_up", q=next(counts))]))

    body = asking(path, stream=stream, **tools_of(path, "look_up"))
    answer = gateway.post(path, body, x_loopmill_streaming=mode)

    assert len(gateway.up.asked) == 4
    assert "look_up" not in answer.text
    wanted = '"stop_reason":"end_turn"' if path == MESSAGES else '"finish_reason":"stop"'
    assert answer.text.count(wanted) == 1


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("mode", Mode)
def test_a_stream_that_waits_says_that_it_goes_on(
    gateway: Deployment, path: str, mode: str
) -> None:
    """C157."""
    gate = asyncio.Event()
    gateway.plays(says("hello there", gates={5: gate}))
    sign = "event: ping" if path == MESSAGES else ": ping"
    body = asking(path, stream=True, **tools_of(path, "look_up"))
    headers = {"x-loopmill-streaming": mode}

    signs = 0
    with gateway.client() as client:
        url = gateway.lively + path
        with client.stream("POST", url, json=body, headers=headers) as answer:
            for line in answer.iter_lines():
                signs += line == sign
                if signs == 3:
                    gate.set()

    assert signs >= 3, "the provider has sent one of them at most"
    assert gate.is_set()


# -- which mode it is


def is_held(answer: httpx.Response) -> bool:
    return "let me look" not in joined(rows_of(answer.text))


@pytest.mark.parametrize("mode", Mode)
def test_the_configuration_says_the_mode(gateway: Deployment, mode: Mode) -> None:
    gateway.plays(LOOKED_UP)
    body = asking(MESSAGES, stream=True, **tools_of(MESSAGES, "look_up"))

    with gateway.client() as client:
        answer = client.post(gateway.others[mode] + MESSAGES, json=body)

    starts = answer.text.count("event: message_start")
    assert (is_held(answer), starts) == (mode is Mode.HOLD, 3 if mode is Mode.COMPATIBLE else 1)


def test_a_callback_that_fulfils_a_tool_has_its_requests_held(gateway: Deployment) -> None:
    gateway.plays(in_turn(says("let me look", calls=[call("hidden")]), says("found it")))
    body = asking(MESSAGES, stream=True, **tools_of(MESSAGES, "hidden"))

    held = gateway.post(MESSAGES, body)
    merged = gateway.post(MESSAGES, body, x_loopmill_streaming="merged")

    assert is_held(held)
    assert "hidden" not in held.text
    assert not is_held(merged)


@pytest.mark.parametrize("path", ROUTES)
def test_a_mode_that_there_is_not_is_refused(gateway: Deployment, path: str) -> None:
    answer = gateway.post(path, asking(path), x_loopmill_streaming="fast")

    check_is_refusal(path, answer, 400, "invalid_request_error")
    assert "compatible, merged, hold" in answer.text
