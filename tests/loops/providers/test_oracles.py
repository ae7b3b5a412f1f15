"""The official SDKs as oracles: of valid streams our messages say what theirs say."""

from typing import Any

import anthropic
import openai
import orjson
import pytest

from loops.fold import fold
from loops.messages import Messages
from loops.model import ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from loops.reply import StreamEnd
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, serving

REQUEST = ModelRequest(model="m", messages=tuple(Messages.of("hi")))
ASKED: Any = [{"role": "user", "content": "hi"}]

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
QUERY = {"type": "input_json_delta", "partial_json": '{"query":"x"}'}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [
        {"type": "web_search_result", "url": "https://acme.test", "title": "t",
         "encrypted_content": "e", "page_age": "1 day"}
    ],
}  # fmt: skip
SO = {"type": "text_delta", "text": "so"}
CITED = {
    "type": "citations_delta",
    "citation": {"type": "char_location", "cited_text": "x", "document_index": 0,
                 "document_title": "d", "start_char_index": 0, "end_char_index": 1},
}  # fmt: skip

MESSAGES = {
    "text": a.reply(a.said(0, "a ", "löng ", "text 😀\u2028")),
    "thinking": a.reply(a.thought(0, "hm", "…", signature="s"), a.said(1, "a")),
    "redacted": a.reply(a.block(0, {"type": "redacted_thinking", "data": "X"}), a.said(1, "a")),
    "calls": a.reply(
        a.said(0, "I look"),
        a.called(1, "look", '{"place"', ': "here", "n": [1, 2.5, null]}'),
        a.called(2, "look", '{"place":"there"}', call_id="toolu_2"),
        stop_reason="tool_use",
    ),
    "no arguments": a.reply(a.called(0, "now"), stop_reason="tool_use"),
    "the service's own": a.reply(a.block(0, SEARCH, QUERY), a.block(1, FOUND), a.said(2, "a")),
    "cited": a.reply(
        a.block(0, {"type": "text", "text": "", "citations": []}, SO, CITED)
    ),
    "cut by its length": a.reply(a.said(0, "a"), stop_reason="max_tokens"),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Return the value without what is not said."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_message_is_what_the_sdk_of_anthropic_makes_of_it(name: str) -> None:
    async with serving(Answer([MESSAGES[name]])) as service:
        async with (
            anthropic.AsyncAnthropic(api_key="k", base_url=service.url, max_retries=0) as client,
            client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
        ):
            theirs = await stream.get_final_message()
        ours = AnthropicModel("m", base_url=service.url, api_key="k")
        events = [event async for event in ask(ours, REQUEST)]

    told = theirs.model_dump(mode="json")
    assert plain([block.raw() for block in fold(events).content]) == plain(told["content"])
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert end.stop_reason == told["stop_reason"]
    assert end.usage is not None
    assert end.usage.output_tokens == told["usage"]["output_tokens"]
    assert end.usage.input_tokens == told["usage"]["input_tokens"]


COMPLETIONS = {
    "text": o.reply(o.said("a ", "löng ", "text 😀\u2028")),
    "calls": o.reply(
        o.said("I look"),
        o.calls(
            call(0, "a", "look", '{"pla'),
            call(0, None, None, 'ce":"here"}'),
            call(1, "b", "look", '{"place":"there"}'),
        ),
        reason="tool_calls",
    ),
    "calls by turns": o.reply(
        o.calls(
            call(0, "a", "f", '{"x"'),
            call(1, "b", "g", '{"y"'),
            call(0, None, None, ":1}"),
            call(1, None, None, ":2}"),
        ),
        reason="tool_calls",
    ),
    "without usage": b"".join([o.said("a"), o.chunk(reason="stop"), o.DONE]),
}


@pytest.mark.parametrize("name", COMPLETIONS)
async def test_a_message_is_what_the_sdk_of_openai_makes_of_it(name: str) -> None:
    async with serving(Answer([COMPLETIONS[name]])) as service:
        base = f"{service.url}/v1"
        async with (
            openai.AsyncOpenAI(api_key="k", base_url=base, max_retries=0) as client,
            client.chat.completions.stream(model="m", messages=ASKED) as stream,
        ):
            theirs = await stream.get_final_completion()
        ours = OpenAIModel("m", base_url=base, api_key="k")
        events = [event async for event in ask(ours, REQUEST)]

    choice, message = theirs.choices[0], fold(events)
    end = events[-1]
    assert message.text == (choice.message.content or "")
    assert [(each.id, each.name, each.input) for each in message.tool_calls] == [
        (each.id, each.function.name, orjson.loads(each.function.arguments))
        for each in choice.message.tool_calls or []
    ]
    assert isinstance(end, StreamEnd)
    if theirs.usage is not None:
        assert end.usage is not None
        assert end.usage.output_tokens == theirs.usage.completion_tokens
        assert end.usage.input_tokens == theirs.usage.prompt_tokens
