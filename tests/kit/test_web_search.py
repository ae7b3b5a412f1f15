import asyncio
import json
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from loops.errors import SetupError, ToolFailed, ToolTimedOut
from loops.kit.web_search import BRAVE_KEY, Found, brave, make_web_search
from loops.messages import ToolResult
from loops.perform import perform
from loops.tool_context import ToolContext
from loops.tools import Tool

KEY = "canary-key-7f3a"
FOUND = [Found("One", "https://one.example/", "first"), Found("Two", "https://two.example/")]
TOLD = [
    {"title": "One", "url": "https://one.example/", "snippet": "first"},
    {"title": "Two", "url": "https://two.example/", "snippet": ""},
]


async def searched(search: Any, **arguments: object) -> ToolResult:
    tool = search if isinstance(search, Tool) else make_web_search(search)
    return await perform(tool, json.dumps({"query": "loops", **arguments}), ToolContext())


async def awaited(query: str, count: int) -> list[Found]:
    return FOUND


def plain(query: str, count: int) -> list[dict[str, Any]]:
    return [{"title": each.title, "url": each.url, "snippet": each.snippet} for each in FOUND]


def lazy(query: str, count: int) -> Any:
    return awaited(query, count)


def sparse(query: str, count: int) -> tuple[object, ...]:
    return FOUND[0], {"title": "Two", "url": "https://two.example/", "snippet": None, "rank": 2}


@pytest.mark.parametrize("search", [awaited, plain, lazy, sparse])
async def test_any_function_may_search(search: Any) -> None:
    result = await searched(search)

    assert not result.is_error
    assert result.content == {"results": TOLD}


async def test_the_function_is_told_what_is_wanted_and_gives_no_more() -> None:
    asked: list[tuple[str, int]] = []

    def search(query: str, count: int) -> list[Found]:
        asked.append((query, count))
        return FOUND * 5

    result = await searched(search, count=3)
    await searched(search)

    assert [len(result.content["results"]), asked] == [3, [("loops", 3), ("loops", 5)]]


@pytest.mark.parametrize("arguments", [{"count": 0}, {"count": 21}, {"query": ""}])
async def test_what_is_asked_has_bounds(arguments: dict[str, object]) -> None:
    result = await searched(awaited, **arguments)

    assert result.is_error
    assert result.text.startswith("InvalidArguments")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("text", "ToolFailed: the search gave a str, and not a list of results"),
        ({"results": []}, "ToolFailed: the search gave a dict, and not a list of results"),
        (None, "ToolFailed: the search gave a NoneType, and not a list of results"),
        ([1], "ToolFailed: the search gave a int, and neither Found nor a dict"),
    ],
)
async def test_what_is_no_list_of_results_is_an_error(given: object, problem: str) -> None:
    result = await searched(lambda query, count: given)

    assert (result.text, result.is_error) == (problem, True)


async def test_what_the_function_raises_is_told() -> None:
    def search(query: str, count: int) -> list[Found]:
        raise LookupError("the index is being built")

    assert (await searched(search)).text == "LookupError: the index is being built"


async def test_long_snippets_are_cut() -> None:
    result = await searched(lambda query, count: [Found("t" * 9999, "https://e.org", "s" * 9999)])

    assert len(json.dumps(result.content)) < 2500


def test_the_tool_has_a_name_and_changes_nothing() -> None:
    tool = make_web_search(awaited, name="find")

    assert (tool.name, tool.read_only) == ("find", True)
    assert make_web_search(awaited).name == "web_search"
    assert set(tool.schema["properties"]) == {"query", "count"}


Answer = Callable[[httpx.Request], httpx.Response]


def service(answer: Answer, key: str | None = KEY, **options: Any) -> Tool:
    return make_web_search(brave(key, transport=httpx.MockTransport(answer), **options))


async def test_brave_is_asked_with_the_key_and_read() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        results = [
            {"title": "A &amp; B", "url": "https://e.org/", "description": "<strong>x</strong> y"},
            "odd",
        ]
        return httpx.Response(200, json={"web": {"results": results}})

    result = await searched(service(answer), count=7)

    assert result.content == {
        "results": [{"title": "A & B", "url": "https://e.org/", "snippet": "x y"}]
    }
    assert str(asked[0].url) == "https://api.search.brave.com/res/v1/web/search?q=loops&count=7"
    assert asked[0].headers["X-Subscription-Token"] == KEY


@pytest.mark.parametrize("body", [{}, {"web": None}, {"web": {}}, {"web": {"results": None}}])
async def test_an_answer_without_results_is_an_empty_list(body: dict[str, object]) -> None:
    result = await searched(service(lambda request: httpx.Response(200, json=body)))

    assert (result.content, result.is_error) == ({"results": []}, False)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (httpx.Response(401, text=KEY), "the status 401; is the key in BRAVE_API_KEY right?"),
        (httpx.Response(422, text=KEY), "the status 422"),
        (httpx.Response(429, text=KEY), "the status 429; it was asked too often"),
        (httpx.Response(500, text=KEY), "the status 500; try again later"),
        (httpx.Response(302, headers={"Location": "https://e.org"}), "the status 302"),
        (httpx.Response(200, text=f"<p>{KEY}"), "no JSON object"),
        (httpx.Response(200, json=[KEY]), "no JSON object"),
    ],
    ids=lambda value: str(getattr(value, "status_code", "")),
)
async def test_a_failing_service_is_told_without_the_key(
    response: httpx.Response, problem: str
) -> None:
    result = await searched(service(lambda request: response))

    assert result.is_error
    assert problem in result.text
    assert KEY not in result.text


async def test_a_service_that_cannot_be_reached_is_told() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"refused {request.headers}")

    result = await searched(service(refuse))

    assert result.text == "ToolFailed: the search service cannot be reached; try again later"


async def test_nobody_else_is_asked_when_the_service_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        search = brave(KEY, base_url=f"http://127.0.0.1:{taken.getsockname()[1]}")

        with pytest.raises(ToolFailed, match="cannot be reached"):
            await search("loops", 5)


async def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["X-Subscription-Token"])
        return httpx.Response(200, json={})

    monkeypatch.setenv(BRAVE_KEY, f" {KEY}\n")
    await searched(service(answer, None))

    assert keys == [KEY]


async def test_without_a_key_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BRAVE_KEY, raising=False)

    with pytest.raises(ToolFailed, match="set BRAVE_API_KEY"):
        await brave()("loops", 5)


async def test_a_key_that_no_header_can_carry_is_not_told() -> None:
    with pytest.raises(ToolFailed, match="characters") as caught:
        await brave(f"{KEY}\u00e9")("loops", 5)

    assert KEY not in str(caught.value)


class Impatient(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise TimeoutError("its own limit")


async def test_a_limit_of_the_transports_own_is_told_as_such() -> None:
    with pytest.raises(TimeoutError, match="its own limit"):
        await brave(KEY, transport=Impatient())("loops", 5)


class Silent(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_service_that_is_silent_is_left() -> None:
    search = brave(KEY, transport=Silent(), limit=timedelta(milliseconds=20))

    with pytest.raises(ToolTimedOut, match="longer than"):
        await search("loops", 5)


def test_an_address_with_a_password_is_refused_at_once() -> None:
    with pytest.raises(SetupError) as caught:
        brave(KEY, base_url="https://me:secret@e.org")

    assert "secret" not in str(caught.value)
