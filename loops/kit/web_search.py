"""The tool that searches the web, by whatever function is given to it; Brave's service is one."""

import os
from asyncio import timeout
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from inspect import isawaitable, iscoroutinefunction
from typing import Annotated, Any, cast

import httpx
from pydantic import Field

from loops.errors import ToolFailed, ToolTimedOut
from loops.guard import Raised
from loops.jsonable import parse_object
from loops.providers.connection import address_of
from loops.providers.exchange import new_client
from loops.tasks import in_thread
from loops.tool_schema import innermost
from loops.tools import Tool, tool

from .html_text import text_of


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that a search found."""

    title: str
    url: str
    snippet: str = ""
    """What the page says about it, in a sentence or a few."""


Search = Callable[[str, int], Awaitable[Sequence[Found]]]
"""Takes a query and how many results are wanted, and gives them, the best one first."""

AnySearch = Search | Callable[[str, int], Any]
"""A plain function is as welcome, and dicts with the fields of `Found` are."""

MOST_FOUND = 20
"""How many results a model may ask for."""

LONGEST_TITLE = 300
LONGEST_SNIPPET = 2000

BRAVE = "https://api.search.brave.com/res/v1"
BRAVE_KEY = "BRAVE_API_KEY"
"""The variable that holds the key for Brave's service."""

LIMIT = timedelta(seconds=20)
"""How long a service may take to answer."""


def make_web_search(search: AnySearch, *, name: str = "web_search") -> Tool:
    """Return the tool that asks a search function; a plain one is called in a thread.

    What the function raises is what the model is told.
    """

    async def ask(
        query: Annotated[str, Field(min_length=1, max_length=400, description="What to look for.")],
        count: Annotated[int, Field(ge=1, le=MOST_FOUND, description="How many results.")] = 5,
    ) -> dict[str, list[dict[str, str]]]:
        """Search the web. Returns the title, the URL and a snippet of each result."""
        found = await _asked(search, query, count)
        return {"results": [_told(each) for each in list(found)[:count]]}

    return tool(name=name, read_only=True, idempotent=True)(ask)


async def _asked(search: AnySearch, query: str, count: int) -> Iterable[object]:
    call = partial(cast("Callable[[str, int], object]", search), query, count)
    if iscoroutinefunction(innermost(search)):
        found = call()
    else:
        found = await in_thread(call, name="web_search")
    if isinstance(found, Raised):
        raise found.error
    if isawaitable(found):
        found = cast("object", await found)
    given = type(found).__name__
    if not isinstance(found, Iterable) or isinstance(found, str | Mapping):
        raise ToolFailed(f"the search gave a {given}, and not a list of results")
    return cast("Iterable[object]", found)


def _told(found: object) -> dict[str, str]:
    if isinstance(found, Found):
        title, url, snippet = found.title, found.url, found.snippet
    elif isinstance(found, Mapping):
        fields = cast("Mapping[str, object]", found)
        title, url, snippet = (_text(fields, name) for name in ("title", "url", "snippet"))
    else:
        raise ToolFailed(f"the search gave a {type(found).__name__}, and neither Found nor a dict")
    return {"title": title[:LONGEST_TITLE], "url": url, "snippet": snippet[:LONGEST_SNIPPET]}


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return "" if value is None else str(value)


def brave(
    api_key: str | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    base_url: str = BRAVE,
    limit: timedelta = LIMIT,
) -> Search:
    """Return a search by Brave's service.

    Args:
        api_key: The key; when it is not given, each search takes it from `BRAVE_API_KEY`.
        transport: What sends the requests; it is closed after each.
        base_url: Where the service is, without `/web/search`.
        limit: How long it may take to answer.

    Raises:
        SetupError: When `base_url` is no address.
    """
    address = address_of(base_url, "/web/search")

    async def search(query: str, count: int) -> list[Found]:
        key = _key(api_key)
        scope = timeout(limit.total_seconds())
        try:
            async with scope:
                body = await _body(address, key, {"q": query, "count": str(count)}, transport)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise ToolTimedOut(f"the search service took longer than {limit}") from error
        return _found(body)

    return search


def _key(given: str | None) -> str:
    key = (given or os.environ.get(BRAVE_KEY) or "").strip()
    if not key:
        raise ToolFailed(f"the search needs a key: set {BRAVE_KEY}, or give api_key")
    if not (key.isascii() and key.isprintable()):
        raise ToolFailed(f"the key of the search ({BRAVE_KEY}) has characters no header can carry")
    return key


async def _body(
    address: str, key: str, asked: Mapping[str, str], transport: httpx.AsyncBaseTransport | None
) -> Mapping[str, object]:
    """Return what the service answers.

    Raises:
        ToolFailed: When that is an error or no JSON; the text holds nothing of either side.
    """
    headers = {"Accept": "application/json", "X-Subscription-Token": key}
    try:
        # Redirects are not followed: the key is for nobody else.
        async with _client(transport) as client:
            response = await client.get(address, params=asked, headers=headers)
    except httpx.HTTPError as error:
        raise ToolFailed("the search service cannot be reached; try again later") from error
    if response.status_code != HTTPStatus.OK:
        mend = _MENDS.get(response.status_code, "try again later")
        raise ToolFailed(
            f"the search service answered with the status {response.status_code}; {mend}"
        )
    try:
        return cast("Mapping[str, object]", parse_object(response.text))
    except ValueError as error:
        raise ToolFailed("the search service answered with what is no JSON object") from error


def _client(transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    if transport is None:
        return new_client()
    return httpx.AsyncClient(transport=transport, trust_env=False)


_MENDS = {
    401: f"is the key in {BRAVE_KEY} right?",
    403: f"is the key in {BRAVE_KEY} right?",
    422: f"ask something shorter; or the key in {BRAVE_KEY} is not right",
    429: "it was asked too often, so wait a little",
}


def _found(body: Mapping[str, object]) -> list[Found]:
    web = body.get("web")
    results = cast("Mapping[str, object]", web).get("results") if isinstance(web, Mapping) else None
    if not isinstance(results, list):
        return []
    fields = [
        cast("Mapping[str, object]", each)
        for each in cast("list[object]", results)
        if isinstance(each, Mapping)
    ]
    return [
        Found(_plain(each, "title"), _text(each, "url"), _plain(each, "description"))
        for each in fields
    ]


def _plain(fields: Mapping[str, object], name: str) -> str:
    # The words that were looked for are marked up.
    return " ".join(text_of(_text(fields, name)).text.split())
