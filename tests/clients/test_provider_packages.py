"""The gateway is asked by the providers' own packages for Node: raw streams, and their helpers.

Each model is asked for two tools: one that the callback answers, one that is the client's own.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.gateway.look_up import TOOL
from tests.gateway.served import CONFIGURATION, Served, served
from worker.embedded import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

SCRIPT = Path(__file__).with_name("ask.mjs")
OWN = "of_the_client"
ALL, LAST = ["let me look", "found it"], ["found it"]

Said = dict[str, Any]


@pytest.fixture(scope="module")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    files = {CONFIGURATION: "callbacks: [tests.gateway.look_up.look_up]\n"}
    with served(server.url, tmp_path_factory.mktemp("gateway"), files) as gateway:
        yield gateway


def node(gateway: Served, model: str, *tools: str) -> Said:
    command = ["node", str(SCRIPT), gateway.url, model, *tools]
    said = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert said.returncode == 0, said.stderr
    answers: Said = orjson.loads(said.stdout)
    return answers


@pytest.fixture(scope="module", params=["claude", "gpt"])
def answers(gateway: Served, request: pytest.FixtureRequest) -> Said:
    """What came when the callback's tool alone was there, by endpoint and mode."""
    return node(gateway, request.param, TOOL)


@pytest.fixture(scope="module", params=["claude", "gpt"])
def mixed(gateway: Served, request: pytest.FixtureRequest) -> Said:
    """What came when the client had a tool of its own."""
    return node(gateway, request.param, TOOL, OWN)


helped = pytest.mark.parametrize(("mode", "texts"), [("merged", ALL), ("hold", LAST)])
plain = pytest.mark.parametrize(
    ("mode", "texts"), [("compatible", LAST), ("merged", ALL), ("hold", LAST)]
)


def texts_of(message: Said) -> list[str]:
    return [block["text"] for block in message["content"] if block["type"] == "text"]


def tokens(usage: Said) -> tuple[int, int]:
    """What was read and what was written, in the words of either protocol."""
    names = [("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens")]
    read, written = next(pair for pair in names if pair[0] in usage)
    return usage[read], usage[written]


# -- Messages


@plain
def test_a_message_is_the_answer_after_the_call(answers: Said, mode: str, texts: list[str]) -> None:
    said = answers["messages"][mode]["plain"]

    assert (texts_of(said), len(said["content"])) == (texts, len(texts))
    assert (said["stop_reason"], tokens(said["usage"])) == ("end_turn", (20, 10))


def test_a_compatible_stream_is_two_messages(answers: Said) -> None:
    events = answers["messages"]["compatible"]["events"]

    kinds = [event["type"] for event in events]
    assert (kinds.count("message_start"), kinds.count("message_stop")) == (2, 2)
    begun = [event for event in events if event["type"] == "content_block_start"]
    assert [event["content_block"]["type"] for event in begun] == ["text", "tool_use", "text"]


@helped
def test_any_other_stream_is_one_message(answers: Said, mode: str, texts: list[str]) -> None:
    events = answers["messages"][mode]["events"]

    kinds = [event["type"] for event in events]
    assert (kinds.count("message_start"), kinds.count("message_stop")) == (1, 1)
    begun = [event for event in events if event["type"] == "content_block_start"]
    assert [event["index"] for event in begun] == list(range(len(texts)))
    assert TOOL not in str(events)


@helped
def test_the_messages_helper_gives_the_final_message(
    answers: Said, mode: str, texts: list[str]
) -> None:
    final = answers["messages"][mode]["final"]

    assert (texts_of(final), len(final["content"])) == (texts, len(texts))
    assert (final["stop_reason"], tokens(final["usage"])) == ("end_turn", (20, 10))


@helped
def test_the_messages_helper_keeps_a_call_of_the_clients_own(
    mixed: Said, mode: str, texts: list[str]
) -> None:
    final = mixed["messages"][mode]["final"]

    calls = [block for block in final["content"] if block["type"] == "tool_use"]
    assert [(call["name"], call["input"]) for call in calls] == [(OWN, {"q": "x"})]
    assert (texts_of(final), final["stop_reason"]) == (texts, "tool_use")


# -- Chat Completions


@plain
def test_a_completion_is_the_answer_after_the_call(
    answers: Said, mode: str, texts: list[str]
) -> None:
    said = answers["chat"][mode]["plain"]

    [choice] = said["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("\n\n".join(texts), "stop")
    assert "tool_calls" not in choice["message"]
    assert tokens(said["usage"]) == (20, 10)


def test_a_compatible_stream_of_a_completion_asks_no_callback(answers: Said) -> None:
    final = answers["chat"]["compatible"]["final"]

    [choice] = final["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [each["function"]["name"] for each in choice["message"]["tool_calls"]] == [TOOL]


@helped
def test_any_other_stream_of_a_completion_is_one(
    answers: Said, mode: str, texts: list[str]
) -> None:
    chunks = answers["chat"][mode]["events"]

    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert "".join(each["delta"].get("content") or "" for each in choices) == "\n\n".join(texts)
    ends = [each["finish_reason"] for each in choices if each["finish_reason"]]
    assert (ends, len({chunk["id"] for chunk in chunks})) == (["stop"], 1)
    usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    assert [tokens(each) for each in usages] == [(20, 10)]
    assert TOOL not in str(chunks)


@helped
def test_the_completions_helper_gives_the_final_completion(
    answers: Said, mode: str, texts: list[str]
) -> None:
    final = answers["chat"][mode]["final"]

    [choice] = final["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("\n\n".join(texts), "stop")
    assert not choice["message"].get("tool_calls")
    assert tokens(final["usage"]) == (20, 10)


@helped
def test_the_completions_helper_keeps_a_call_of_the_clients_own(
    mixed: Said, mode: str, texts: list[str]
) -> None:
    [choice] = mixed["chat"][mode]["final"]["choices"]

    functions = [each["function"] for each in choice["message"]["tool_calls"]]
    assert [each["name"] for each in functions] == [OWN]
    assert orjson.loads(functions[0]["arguments"]) == {"q": "x"}
    assert (choice["message"]["content"], choice["finish_reason"]) == (
        "\n\n".join(texts),
        "tool_calls",
    )
