"""What callers of the gateway may send: names (S4, T6), bodies, methods, and agents by name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.gateway import BODY_LIMIT
from tests.api.deployed import (
    CHAT,
    COUNT,
    MESSAGES,
    ROUTES,
    Deployment,
    asking,
    check_is_refusal,
    check_says_nothing,
    deployed,
    joined,
    rows_of,
    tools_of,
)
from tests.api.raw import Raw
from tests.api.test_limits import HOSTILE
from tests.gateway.upstream import says

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


PATHS = pytest.mark.parametrize("path", ROUTES)

STRANGE = [
    *("os.system", "..", "__class__", "builtins:eval", "anthropic/claude-x", "openai/gpt-x"),
    *("loopmill.gateway", "agent/loopmill.gateway", "agent/", "agent/..", "agent/../claude"),
    *("agent/os.system", "agent/weather/x", "agent/ weather", "Claude", "claude ", "сlaude"),
    *("claude\r\nx-evil: 1", "claude\n", "agent/weather\r\nx: y", "\u202eclaude", "*", "{t}:1"),
]


@PATHS
@pytest.mark.parametrize("name", STRANGE)
def test_a_name_that_nobody_configured_is_404_and_runs_nothing(
    gateway: Deployment, path: str, name: str
) -> None:
    gateway.plays(says("hello"))

    answer = gateway.post(path, asking(path, name))

    check_is_refusal(path, answer, 404, "not_found_error")
    check_says_nothing(gateway, answer)
    assert "x-evil" not in answer.headers
    assert gateway.up.asked == []


NO_NAMES = ["", "x" * 201, "x" * 1_000_000, None, 7, True, [], {}, ["claude"]]


@PATHS
@pytest.mark.parametrize("name", NO_NAMES, ids=lambda name: str(name)[:5])
def test_what_is_no_name_is_400(gateway: Deployment, path: str, name: object) -> None:
    answer = gateway.post(path, {**asking(path), "model": name})

    check_is_refusal(path, answer, 400, "invalid_request_error")
    assert len(answer.content) < 1000


@PATHS
@pytest.mark.parametrize("body", [body for _, body in HOSTILE], ids=[name for name, _ in HOSTILE])
def test_a_hostile_body_is_400(gateway: Deployment, path: str, body: bytes) -> None:
    with gateway.client() as client:
        answer = client.post(path, content=body, headers={"content-type": "application/json"})

    check_is_refusal(path, answer, 400, "invalid_request_error")


@PATHS
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_json_under_another_name_is_415(gateway: Deployment, path: str, kind: str) -> None:
    with gateway.client() as client:
        body = json.dumps(asking(path))
        answer = client.post(path, content=body, headers={"content-type": kind})

    check_is_refusal(path, answer, 415, "invalid_request_error")


@PATHS
async def test_a_body_past_the_limit_is_413_without_reading_the_rest(
    gateway: Deployment, path: str
) -> None:
    port = int(gateway.url.rpartition(":")[2])
    length = f"Content-Length: {BODY_LIMIT + 1}"
    told = (length, "Content-Type: application/json", "x-api-key: alpha")

    async with Raw(port, path, *told, method="POST") as raw:
        assert raw.status == 413
        assert raw.headers["connection"] == "close"


# The remark is on bodies of more than a megabyte; to send one takes a few milliseconds here.
def test_a_body_of_many_megabytes_goes_through(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    text = "x" * (12 * 1024 * 1024)

    answer = gateway.post(MESSAGES, asking(MESSAGES, system=text))

    assert answer.status_code == 200
    assert gateway.up.asked[0].body["system"] == text


@PATHS
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_another_method_is_405(gateway: Deployment, path: str, method: str) -> None:
    with gateway.client() as client:
        answer = client.request(method, path)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    if method != "HEAD":
        check_is_refusal(path, answer, 405, "invalid_request_error")


ODD: list[dict[str, Any]] = [
    {"messages": None},
    {"messages": []},
    {"messages": {}},
    {"messages": "hi"},
    {"messages": [None]},
    {"messages": [[]]},
    {"messages": [{}]},
    {"messages": [{"role": "user"}]},
    {"messages": [{"role": 7, "content": 8}]},
    {"messages": [{"role": "user", "content": [None, 1, "x", []]}]},
    {"messages": [{"role": "user", "content": [{"type": "novel"}]}]},
    {"messages": [{"role": "tool", "content": "x"}]},
    {"messages": [{"role": "assistant", "tool_calls": "x"}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]},
    {"stream": "yes"},
    {"stream": 1},
    {"tools": "x"},
    {"tools": [None]},
    {"tools": [{"name": 7}]},
    {"tools": {"name": "x"}},
    {"tool_choice": 7},
    {"tool_choice": []},
    {"system": 7},
    {"system": [None]},
    {"max_tokens": "many"},
    {"max_tokens": -1},
    {"n": 5},
    {"stop": 7},
    {"thinking": "x"},
    {"response_format": [1]},
    {"metadata": 7},
    {"stream_options": 7},
    {"stream_options": {"include_usage": "x"}, "stream": True},
    {"stop_sequences": {}},
    {"reasoning_effort": {}},
    {"output_config": 7},
    {"functions": 7},
]


@PATHS
@pytest.mark.parametrize("model", ["claude", "gpt", "agent/listener"])
def test_an_odd_body_is_answered_or_refused_and_never_a_fault_of_ours(
    gateway: Deployment, path: str, model: str
) -> None:
    gateway.plays(says("hello"))
    with gateway.client() as client:
        for odd in ODD:
            answer = client.post(path, json={**asking(path, model), **odd})

            assert answer.status_code < 500, f"{odd}: {answer.text}"
            if answer.status_code != 200:
                check_is_refusal(path, answer, answer.status_code)


LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5)
NAMES = st.sampled_from(
    ["role", "content", "type", "text", "name", "id", "input", "function", "tool_calls", "budget"]
)
VALUES = st.recursive(
    LEAVES, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=4)
)
FIELDS = st.sampled_from(
    ["messages", "tools", "tool_choice", "system", "thinking", "stop", "response_format", "stream"]
)


@given(odd=st.dictionaries(FIELDS, VALUES, min_size=1, max_size=3))
@settings(max_examples=60)
def test_whatever_stands_in_a_field_no_path_fails(gateway: Deployment, odd: dict[str, Any]) -> None:
    gateway.plays(says("hello"))
    with gateway.client() as client:
        for path, model in ((MESSAGES, "gpt"), (CHAT, "claude")):
            answer = client.post(path, json={**asking(path, model), **odd})

            assert answer.status_code < 500, answer.text


# -- agents


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("mode", ["compatible", "merged", "hold"])
def test_an_agent_answers_in_the_callers_protocol(
    gateway: Deployment, path: str, mode: str
) -> None:
    answer = gateway.post(path, asking(path, "agent/weather"), x_loopmill_streaming=mode)

    assert answer.status_code == 200
    assert "It is sunny in Rome." in answer.text
    told = answer.json()
    assert told["model"] == "agent/weather"
    reason = told["stop_reason"] if path == MESSAGES else told["choices"][0]["finish_reason"]
    assert reason == ("end_turn" if path == MESSAGES else "stop")
    assert answer.headers["x-loopmill-usage"]


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_an_agent_streams(gateway: Deployment, path: str) -> None:
    answer = gateway.post(path, asking(path, "agent/weather", stream=True))

    rows = rows_of(answer.text)
    assert "It is sunny in Rome." in joined(rows)
    names = [name for name, _ in rows]
    assert names[-1] == "message_stop" if path == MESSAGES else rows[-1][1] == "[DONE]"


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_an_agent_hears_the_whole_conversation(gateway: Deployment, path: str) -> None:
    said = ["user", "assistant", "user"]
    messages = [{"role": role, "content": "hi"} for role in said]

    answer = gateway.post(path, {**asking(path, "agent/listener"), "messages": messages})

    assert "3 messages" in answer.text


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_an_agent_is_given_no_tools(gateway: Deployment, path: str) -> None:
    answer = gateway.post(path, asking(path, "agent/weather", **tools_of(path, "mine")))

    check_is_refusal(path, answer, 400, "invalid_request_error")


def test_an_agents_tokens_are_not_counted_by_running_it(gateway: Deployment) -> None:
    answer = gateway.post(COUNT, asking(COUNT, "agent/weather"))

    check_is_refusal(COUNT, answer, 400, "invalid_request_error")
