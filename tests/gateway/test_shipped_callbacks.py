"""The shipped callbacks in whole calls: what their callers get, and what the provider is sent."""

from typing import Any

import pytest

from loops.gateway.compression import Compression
from loops.gateway.rounds import Mode, Surface
from loops.gateway.web_search import WebSearch
from tests.gateway.rounds_in_process import CHAT, MESSAGES, SURFACES, Came, Raw, always, ask
from tests.gateway.upstream import Asked, Told, call, in_turn, says

SEARCH = call("litellm_web_search", query="rain")
NATIVE = {"type": "web_search_20250305", "name": "web_search"}
SEARCHED = in_turn(says("I look. ", thinking="hmm", calls=[SEARCH]), says("It rains."))


async def found(query: str) -> list[Raw]:
    return [{"title": "Weather", "url": "http://example.com", "snippet": f"about {query}"}]


async def broken(query: str) -> Any:
    raise ValueError("no net")


def tools_of(surface: Surface) -> list[Raw]:
    if surface is MESSAGES:
        return [NATIVE]
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    function = {"name": "litellm_web_search", "parameters": parameters}
    return [{"type": "function", "function": function}]


def kinds(came: Came) -> list[str]:
    return [kind for kind, _ in came.content]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("protocol", SURFACES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_search_is_answered_whoever_asks_however(
    surface: Surface, protocol: Surface, stream: bool
):
    came = await ask(
        SEARCHED,
        WebSearch(found),
        surface=surface,
        protocol=protocol,
        mode=Mode.HOLD,
        stream=stream,
        tools=tools_of(surface),
    )

    assert came.text == "It rains."
    assert "about rain" in str(came.sent[1]["messages"][-1])
    assert "web_search_20250305" not in str(came.sent)
    assert not [name for kind, name in came.content if kind == "tool_use"]


async def test_a_streamed_search_says_what_all_of_it_has_taken():
    came = await ask(SEARCHED, WebSearch(found), mode=Mode.HOLD, stream=True, tools=[NATIVE])

    assert came.body["usage"]["output_tokens"] == 10
    assert came.body["usage"]["input_tokens"] == 20


@pytest.mark.parametrize("stream", [False, True])
async def test_who_asked_for_the_providers_own_search_gets_its_blocks_first(stream: bool):
    came = await ask(SEARCHED, WebSearch(found), mode=Mode.HOLD, stream=stream, tools=[NATIVE])

    assert kinds(came)[:2] == ["server_tool_use", "web_search_tool_result"]
    assert came.body["content"][0]["input"] == {"query": "rain"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_search_that_is_refused_keeps_the_text_and_the_blocks(stream: bool):
    refused = always(SEARCH)

    came = await ask(refused, WebSearch(found), mode=Mode.HOLD, stream=stream, tools=[NATIVE])

    assert kinds(came) == ["server_tool_use", "web_search_tool_result", "text"]
    assert (came.reason, len(came.sent)) == ("end_turn", 2)


async def test_where_every_search_fails_the_turn_ends_with_the_reason():
    came = await ask(SEARCHED, WebSearch(broken), tools=[NATIVE])

    result = came.body["content"][1]
    assert result["content"]["type"] == "web_search_tool_result_error"
    assert (came.reason, len(came.sent)) == ("end_turn", 1)


async def test_a_search_that_fails_is_told_to_the_model_of_who_knows_no_native_search():
    came = await ask(SEARCHED, WebSearch(broken), surface=CHAT, tools=tools_of(CHAT))

    assert "Search failed" in str(came.sent[1]["messages"][-1])
    assert came.text == "It rains."


async def test_what_the_model_thought_stands_before_its_search():
    came = await ask(SEARCHED, WebSearch(found), tools=[NATIVE])

    said = came.sent[1]["messages"][1]["content"]
    assert [each["type"] for each in said] == ["thinking", "text", "tool_use"]


def reading(asked: Asked) -> Told:
    """Read on in what was shortened, by the key that stands there."""
    told = str(asked.body["messages"])
    if "2nd half" in told:
        return says("all read")
    key = told.partition("with key '")[2].partition("'")[0]
    key = key or told.partition("with key \\'")[2].partition("\\")[0]
    return says(calls=[call("litellm_content_retrieve", key=key, offset=20)])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_long_result_is_shortened_and_read_on_demand(stream: bool):
    text = "1st half " * 50 + "2nd half " * 50
    asked = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "r", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]},
    ]

    came = await ask(
        reading,
        Compression(longest=100, shown=20),
        mode=Mode.HOLD,
        stream=stream,
        messages=asked,
        temperature=0.5,
    )

    assert came.text == "all read"
    assert text not in str(came.sent[0])
    assert [sent["temperature"] for sent in came.sent] == [0.5, 0.5]
    assert [len(sent["tools"]) for sent in came.sent] == [3, 3]
    assert [sent["max_tokens"] for sent in came.sent] == [99, 99]
