"""What a run may be asked for, and the words in which everything else is refused."""

from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from api.requests import RunRequest, messages_of
from loops.history import inspect, repair
from worker.resources import Resources

HELLO = {"agent": "echo", "input": "hello"}
JSON = {"Content-Type": "application/json"}

UNREADABLE: list[tuple[Any, str]] = [
    ({"type": "text"}, "text"),
    ({"type": "text", "text": 5}, "text"),
    ({"type": "text", "text": None}, "text"),
    ({"type": "thinking"}, "thinking"),
    ({"type": "image"}, "source"),
    ({"type": "image", "source": "https://example.com"}, "source"),
    ({"type": "document", "source": [1]}, "source"),
    ({"type": "tool_result", "content": "x"}, "tool_use_id"),
    ({"type": "tool_result", "tool_use_id": "a", "content": [1, 2]}, "content"),
    ({"type": "tool_result", "tool_use_id": "a", "content": 5}, "content"),
    ({"type": "tool_use", "name": "search"}, "id"),
    ({"type": "tool_use", "id": "a"}, "name"),
    ({"type": "tool_use", "id": "a", "name": "search", "input": "{}"}, "input"),
    ({"type": 5}, "type"),
    ({"text": "x"}, "type"),
    (5, "object"),
    (None, "object"),
]


@pytest.mark.parametrize(("block", "named"), UNREADABLE)
async def test_a_block_that_cannot_be_read_is_422_with_its_place(
    client: httpx.AsyncClient, resources: Resources, block: Any, named: str
) -> None:
    content = [{"type": "text", "text": "fine"}, block]
    answer = await client.post(
        "/v1/runs", json={**HELLO, "input": [{"role": "user", "content": content}]}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    (fault,) = answer.json()["errors"]
    assert fault["at"] == "input.0.content.1"
    assert named in fault["why"]
    assert await resources.queue.depth("runs") == 0


CALL = {"type": "tool_use", "id": "a", "name": "search", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "x"}]}
READABLE: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "x"}, {"role": "assistant", "content": [CALL]}],
    [{"role": "user", "content": [RESULT]}],
    [{"role": "user", "content": [{"type": "server_tool_use", "anything": [1, {"a": None}]}]}],
    [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"a": 1}}]}],
    [{"role": "system", "content": "x"}, {"role": "user", "content": []}],
]


@pytest.mark.parametrize("messages", READABLE, ids=range(len(READABLE)))
async def test_halves_of_a_history_and_unknown_blocks_are_accepted_and_can_be_sent(
    client: httpx.AsyncClient, messages: list[dict[str, Any]]
) -> None:
    answer = await client.post("/v1/runs", json={**HELLO, "input": messages})

    assert answer.status_code == 202
    kept = messages_of(RunRequest.model_validate({**HELLO, "input": messages}).input)
    assert kept == messages
    assert list(inspect(repair(kept))) == []


FIELDS = (
    "agent and input, perhaps session_id, on_conflict, timeout, budget, metadata, approvals, "
    "declined, stream"
)
WORDS: list[tuple[Any, str]] = [
    ([], f"the body is an object with {FIELDS}"),
    ("text", f"the body is an object with {FIELDS}"),
    ({**HELLO, "input": 5}, "input: a text, or a list of messages"),
    ({**HELLO, "input": None}, "input: a text, or a list of messages"),
    ({**HELLO, "input": {}}, "input: a text, or a list of messages"),
    ({**HELLO, "input": [7]}, "input.0: an object"),
    ({**HELLO, "input": [{"role": "user", "content": 5}]},
     "input.0.content: a text, or a list of blocks"),
    ({"agent": "echo"}, "input: the field is missing"),
    ({**HELLO, "surprise": 1}, "surprise: there is no such field"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words"), WORDS)
async def test_a_refusal_says_in_plain_words_what_is_wanted(
    client: httpx.AsyncClient, body: Any, words: str
) -> None:
    answer = await client.post("/v1/runs", json=body)

    assert answer.status_code == 422
    assert answer.json()["detail"] == words


async def test_a_session_has_its_own_words(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions", content=b"[]", headers=JSON)

    assert answer.status_code == 422
    assert answer.json()["detail"] == "the body is an object with perhaps id, metadata"


ODD: list[dict[str, Any]] = [
    {"input": ""},
    {"input": []},
    {"input": [{"role": "nobody", "content": [{"type": "text"}, 5, []]}, 5, None, []]},
    {"input": [{"content": [[]]}] * 100},
    {"metadata": {"": 5, "a": None}},
    {"metadata": {"k" * 65: "x"}},
    {"metadata": []},
    {"session_id": 5, "stream": "yes", "timeout": "1"},
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
async def test_no_refusal_shows_how_the_server_is_built(
    client: httpx.AsyncClient, odd: dict[str, Any]
) -> None:
    answer = await client.post("/v1/runs", json={**HELLO, **odd})

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) <= 20
    for inner in ("list[", "union", "str.", "InputMessage", "function-", "[key]", "<", "pydantic"):
        assert inner not in answer.text


@pytest.mark.parametrize("timeout", [0.001, 1, 2.5, 30 * 86400])
def test_a_time_limit_is_from_a_millisecond_to_thirty_days(timeout: float) -> None:
    request = RunRequest.model_validate({**HELLO, "timeout": timeout})

    assert request.timeout is not None
    assert request.timeout == timeout


@pytest.mark.parametrize("timeout", [0, -1, 0.0009, 1e-300, 30 * 86400 + 1, 1e300, True, "10"])
def test_any_other_time_limit_is_refused(timeout: object) -> None:
    with pytest.raises(ValidationError, match="timeout"):
        RunRequest.model_validate({**HELLO, "timeout": timeout})
