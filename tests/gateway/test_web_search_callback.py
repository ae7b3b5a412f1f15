"""The callback that searches the web: what of a request it replaces, and what it answers."""

import asyncio
import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from loops.errors import RateLimited, SetupError
from loops.gateway.answer import Answer
from loops.gateway.custom_logger import AgenticLoopPlan
from loops.gateway.rounds import Surface
from loops.gateway.web_search import WebSearch
from tests.gateway.bodies_at_hand import (
    CHAT,
    MESSAGES,
    admitted,
    completion,
    gate,
    kwargs,
    message,
    plan,
    use,
)

NAME = "litellm_web_search"
NATIVE = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
STANDARD = {"name": NAME, "input_schema": {}}
WEATHER = {"name": "weather", "input_schema": {"type": "object"}}
FOUND = [{"title": "A page", "url": "https://a.example/", "snippet": "It says so."}]


async def found(query: str) -> list[dict[str, str]]:
    return [{**each, "snippet": f"{query}: {each['snippet']}"} for each in FOUND]


async def failing(query: str) -> list[dict[str, str]]:
    raise ConnectionError("no way there")


def native_kwargs() -> dict[str, Any]:
    return kwargs(MESSAGES, {"tools": [NATIVE]})


@pytest.mark.parametrize(
    "tool",
    [
        NATIVE,
        {"type": "web_search_20260101", "name": "web_search"},
        {"type": "web_search"},
        {"name": "WebSearch"},
        {"type": "custom", "name": "web_search"},
        STANDARD,
        {"type": "function", "function": {"name": NAME}},
    ],
)
async def test_a_web_search_of_a_request_becomes_the_one_tool(tool: dict[str, Any]) -> None:
    request = {"model": "x", "messages": [], "tools": [WEATHER, tool]}

    asked = await admitted(WebSearch(found), request)

    assert asked["tools"][0] == WEATHER
    assert asked["tools"][1]["name"] == NAME
    assert asked["tools"][1]["input_schema"]["required"] == ["query"]
    assert request["tools"] == [WEATHER, tool]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "WebSearch", "input_schema": {"type": "object"}},
        {"type": "custom", "name": "web_search", "input_schema": {"type": "object"}},
        {"type": "function", "function": {"name": "web_search"}},
        WEATHER,
    ],
)
async def test_a_clients_own_tool_is_left_alone(tool: dict[str, Any]) -> None:
    request = {"model": "x", "messages": [], "tools": [tool]}

    assert await admitted(WebSearch(found), request) is request


async def test_two_searches_become_one_and_the_order_stays() -> None:
    request = {"tools": [NATIVE, WEATHER, STANDARD], "messages": []}

    asked = await admitted(WebSearch(found), request)

    assert [each["name"] for each in asked["tools"]] == [NAME, "weather"]


async def test_a_chat_completion_gets_the_tool_in_its_own_shape() -> None:
    asked = await admitted(
        WebSearch(found), {"tools": [{"type": "web_search"}], "messages": []}, "acompletion"
    )

    [tool] = asked["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", NAME)
    assert tool["function"]["parameters"]["required"] == ["query"]


@pytest.mark.parametrize(
    ("choice", "call_type", "expected"),
    [
        ({"type": "tool", "name": "web_search"}, MESSAGES, {"type": "tool", "name": NAME}),
        ({"type": "tool", "name": "weather"}, MESSAGES, {"type": "tool", "name": "weather"}),
        ({"type": "auto"}, MESSAGES, {"type": "auto"}),
        (
            {"type": "function", "function": {"name": "web_search"}},
            "acompletion",
            {"type": "function", "function": {"name": NAME}},
        ),
    ],
)
async def test_a_forced_choice_forces_the_tool_that_is_there(
    choice: dict[str, Any], call_type: str, expected: dict[str, Any]
) -> None:
    request = {"tools": [NATIVE, WEATHER], "messages": [], "tool_choice": choice}

    asked = await admitted(WebSearch(found), request, call_type)

    assert asked["tool_choice"] == expected


async def test_the_limit_of_rounds_goes_with_the_tool_alone() -> None:
    callback = WebSearch(found, max_agentic_loops=7)

    with_tool = await admitted(callback, {"tools": [NATIVE], "messages": []})
    without = await admitted(callback, {"tools": [WEATHER], "messages": []})

    assert with_tool["max_agentic_loops"] == 7
    assert "max_agentic_loops" not in without


async def test_only_the_named_vendors_models_get_the_tool() -> None:
    callback = WebSearch(found, enabled_providers=["ollama"])
    calls = message(use(NAME, {"query": "q"}))

    here = await admitted(callback, {"model": "ollama/x", "tools": [NATIVE], "messages": []})
    there = await admitted(callback, {"model": "nobody/x", "tools": [NATIVE], "messages": []})

    assert (here["tools"] == [NATIVE], there["tools"]) == (False, [NATIVE])
    assert (await gate(callback, calls, [STANDARD]))[0] is False
    assert (await gate(callback, calls, [STANDARD], custom_llm_provider="ollama"))[0] is True


async def test_its_own_calls_alone_are_taken_up() -> None:
    ours, other = use(NAME, {"query": "q"}), use("weather", {}, "toolu_2")

    wants, told = await gate(WebSearch(found), message(ours, other), [STANDARD])
    chat = await gate(WebSearch(found), completion(ours, other), [STANDARD])

    assert (wants, told) == (True, {"tool_calls": [ours]})
    assert chat == (True, {"tool_calls": [ours]})
    assert await gate(WebSearch(found), message(other), [STANDARD]) == (False, {})
    assert await gate(WebSearch(found), message(ours), [WEATHER]) == (False, {})


async def test_a_search_is_answered_after_what_the_model_thought_and_said() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said, call = {"type": "text", "text": "I look."}, use(NAME, {"query": "rain"})
    reply = message(said, thought, call, use("weather", {}, "toolu_2"))

    planned = await plan(WebSearch(found), reply, [call], kwargs(MESSAGES))

    _, assistant, user = planned.request_patch.messages
    assert planned.run_agentic_loop
    assert assistant == {"role": "assistant", "content": [thought, said, call]}
    [result] = user["content"]
    assert result["tool_use_id"] == "toolu_1"
    assert result["content"] == "Title: A page\nURL: https://a.example/\nrain: It says so."
    assert planned.request_patch.max_tokens is None


async def test_a_search_of_a_chat_completion_is_answered_in_its_shape() -> None:
    call = use(NAME, {"query": "Zürich"})
    reply = completion(call, text="I look.")

    planned = await plan(WebSearch(found), reply, [call], kwargs(CHAT))

    _, assistant, tool = planned.request_patch.messages
    [asked] = assistant["tool_calls"]
    assert (assistant["content"], asked["id"]) == ("I look.", "toolu_1")
    assert json.loads(asked["function"]["arguments"]) == {"query": "Zürich"}
    assert (tool["role"], tool["tool_call_id"]) == ("tool", "toolu_1")
    assert "Zürich: It says so." in tool["content"]


async def test_all_searches_of_a_reply_run_at_once() -> None:
    begun, all_begun = [], asyncio.Event()

    async def search(query: str) -> str:
        begun.append(query)
        if len(begun) == 3:
            all_begun.set()
        await all_begun.wait()
        return query.upper()

    calls = [use(NAME, {"query": each}, each) for each in "abc"]
    planned = await plan(WebSearch(search), message(*calls), calls, kwargs(MESSAGES))

    results = planned.request_patch.messages[-1]["content"]
    assert [each["content"] for each in results] == ["A", "B", "C"]


def plain(query: str) -> list[Any]:
    return [f"just {query}"]


def unfit(query: str) -> Any:
    return 5


async def nothing(query: str) -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("search", "arguments", "text"),
    [
        (failing, {"query": "q"}, "Search failed: ConnectionError: no way there"),
        (found, {}, "Search failed: no query was given"),
        (found, {"query": 5}, "Search failed: no query was given"),
        (unfit, {"query": "q"}, "Search failed: ToolFailed: the search gave a int"),
        (plain, {"query": "q"}, "just q"),
        (nothing, {"query": "q"}, "Nothing was found."),
    ],
)
async def test_whatever_a_search_does_the_model_is_told(
    search: Any, arguments: dict[str, Any], text: str
) -> None:
    call = use(NAME, arguments)

    planned = await plan(WebSearch(search), message(call), [call], kwargs(MESSAGES))

    [result] = planned.request_patch.messages[-1]["content"]
    assert result["content"].startswith(text)


@pytest.mark.parametrize(
    ("limit", "budget", "expected"),
    [
        (1000, 2000, 3024),
        (2000, 2000, 3024),
        (2001, 2000, None),
        (None, 2000.5, 3025),
        (1000, None, None),
        *((1000, odd, None) for odd in (math.inf, -math.inf, math.nan, -5, 0, True, "9")),
    ],
)
async def test_a_reply_has_room_beside_what_the_model_thinks(
    limit: int | None, budget: Any, expected: int | None
) -> None:
    call = use(NAME, {"query": "q"})
    params = {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": budget}}

    planned = await plan(WebSearch(found), message(call), [call], kwargs(MESSAGES), params)

    assert planned.request_patch.max_tokens == expected


async def posted(callback: WebSearch, response: Any, planned: AgenticLoopPlan) -> Any:
    return await callback.async_post_agentic_loop_response_hook(
        response=response, plan=planned, kwargs=native_kwargs()
    )


async def test_who_asked_for_the_providers_own_search_sees_its_blocks() -> None:
    callback, call = WebSearch(found), use(NAME, {"query": "rain"})
    text = {"type": "text", "text": "done"}

    planned = await plan(callback, message(call), [call], native_kwargs())
    final = await posted(callback, message(text), planned)

    asked, result, last = final["content"]
    assert (asked["type"], asked["input"]) == ("server_tool_use", {"query": "rain"})
    assert asked["id"].startswith("srvtoolu_")
    assert (result["type"], result["tool_use_id"]) == ("web_search_tool_result", asked["id"])
    assert [each["url"] for each in result["content"]] == ["https://a.example/"]
    assert last == text
    assert json.loads(planned.model_dump_json())["metadata"] == planned.metadata


async def test_an_answer_that_is_an_object_gets_the_blocks_too() -> None:
    callback, call = WebSearch(found), use(NAME, {"query": "rain"})
    planned = await plan(callback, message(call), [call], native_kwargs())
    response = SimpleNamespace(content=[], id="msg_2")

    final = await posted(callback, response, planned)

    assert (len(final.content), final.id, response.content) == (2, "msg_2", [])
    grown = await posted(callback, Answer(message(), Surface.MESSAGES), planned)
    assert len(grown["content"]) == 2


async def test_who_asked_for_the_tool_by_its_name_sees_no_blocks() -> None:
    callback, call = WebSearch(found), use(NAME, {"query": "rain"})
    planned = await plan(callback, message(call), [call], kwargs(MESSAGES, {"tools": [STANDARD]}))
    response = message({"type": "text", "text": "done"})

    assert await posted(callback, response, planned) is response


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionError("x"), "unavailable"),
        (RateLimited("x"), "too_many_requests"),
    ],
)
async def test_when_every_search_fails_a_native_turn_ends(error: Exception, code: str) -> None:
    async def search(query: str) -> str:
        raise error

    callback, call = WebSearch(search), use(NAME, {"query": "rain"})

    planned = await plan(callback, message(call), [call], native_kwargs())
    final = await posted(callback, message(), planned)

    assert (planned.terminate, planned.stop_reason) == (True, "web_search_failed")
    assert final["content"][1]["content"] == {
        "type": "web_search_tool_result_error",
        "error_code": code,
    }


async def test_one_search_that_fails_ends_no_turn() -> None:
    calls = [use(NAME, {"query": "q"}), use(NAME, {}, "toolu_2")]

    planned = await plan(WebSearch(found), message(*calls), calls, native_kwargs())

    errors = [each for each in planned.metadata["native_blocks"] if "error_code" in str(each)]
    assert planned.run_agentic_loop
    assert [each["content"]["error_code"] for each in errors] == ["invalid_tool_input"]


async def test_our_blocks_are_text_again_when_they_come_back() -> None:
    callback, call = WebSearch(found), use(NAME, {"query": "Wetter für morgen"})
    planned = await plan(callback, message(call), [call], native_kwargs())
    theirs = {"type": "server_tool_use", "id": "srvtoolu_01x", "name": "web_search", "input": {}}
    shown = [*planned.metadata["native_blocks"], theirs, {"type": "text", "text": "done"}]
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": shown}]

    asked = await admitted(callback, {"messages": history, "tools": []})

    told, foreign, text = asked["messages"][1]["content"]
    assert told["type"] == "text"
    assert "https://a.example/" in told["text"]
    assert "Wetter für morgen: It says so." in told["text"]
    assert (foreign, text["text"]) == (theirs, "done")


def test_its_name_is_one_that_no_caller_sees() -> None:
    assert WebSearch(found).server_fulfilled_tool_names == {NAME}
    assert WebSearch(found, tool_name="mine").server_fulfilled_tool_names == {"mine"}
    assert WebSearch.server_fulfilled_tool_names == {NAME}


def test_without_a_function_it_cannot_be_made() -> None:
    with pytest.raises(SetupError, match=r"WebSearch takes a function of a query"):
        WebSearch("module.search")  # type: ignore[arg-type]  # on purpose
