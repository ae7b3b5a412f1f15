"""Searches of the web by a function of the user's own, all of a reply's at once."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from loops.errors import RateLimited, ToolFailed
from loops.guard import Raised, outcome_of
from loops.tasks import Owner, in_thread
from loops.tool_schema import innermost

Search = Callable[[str], Awaitable[Sequence[Mapping[str, Any]] | str]]
"""Takes a query, and gives what was found: dicts with `title`, `url` and `snippet`, or a text."""

AnySearch = Search | Callable[[str], Any]
"""A plain function is as welcome; it is called in a thread."""

NO_QUERY = "no query was given"
NOTHING = "Nothing was found."


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that a search found; where the search gave a text, only `snippet` is there."""

    snippet: str
    title: str = ""
    url: str = ""

    @property
    def text(self) -> str:
        """The result, as a model reads it."""
        told = {"Title": self.title, "URL": self.url}
        lines = [f"{name}: {value}" for name, value in told.items() if value]
        return "\n".join([*lines, self.snippet] if self.snippet else lines)


@dataclass(frozen=True, slots=True)
class Searched:
    """What has become of one search."""

    query: str
    results: tuple[Result, ...] = ()
    error: str = ""
    """Why it failed; empty where it did not."""
    code: str = "unavailable"
    """The same, as Anthropic's own search calls it."""

    @property
    def text(self) -> str:
        """What the model is told."""
        if self.error:
            return f"Search failed: {self.error}"
        return "\n\n".join(each.text for each in self.results) or NOTHING


async def searched(search: AnySearch, queries: Iterable[object]) -> list[Searched]:
    """Search for all queries at once, and return what came of each; nothing of it is raised."""
    owner = Owner()
    try:
        tasks = [owner.start(_searched(search, each), name="web search") for each in queries]
        await owner.join()
    finally:
        await owner.close()
    return [task.result() for task in tasks]


async def _searched(search: AnySearch, query: object) -> Searched:
    if not isinstance(query, str) or not query.strip():
        return Searched("", error=NO_QUERY, code="invalid_tool_input")
    found = await outcome_of(partial(_found, search, query))
    if isinstance(found, Raised):
        return Searched(query, error=found.text, code=_code_of(found.error))
    return Searched(query, found)


async def _found(search: AnySearch, query: str) -> tuple[Result, ...]:
    if iscoroutinefunction(innermost(search)):
        given: object = search(query)
    else:
        given = await in_thread(partial(search, query), name="web search")
    if isinstance(given, Raised):
        raise given.error
    if isawaitable(given):
        given = cast("object", await given)
    return _results_in(given)


def _results_in(given: object) -> tuple[Result, ...]:
    if isinstance(given, str):
        return (Result(given),) if given.strip() else ()
    if not isinstance(given, list | tuple):
        raise ToolFailed(
            f"the search gave a {type(given).__name__}, and neither a text nor a list of results"
        )
    return tuple(_result(each) for each in cast("Sequence[object]", given))


def _result(found: object) -> Result:
    if isinstance(found, str):
        return Result(found)
    if not isinstance(found, Mapping):
        raise ToolFailed(f"the search gave a {type(found).__name__} as a result, and no dict")
    told = cast("Mapping[str, object]", found)
    snippet, title, url = (_text(told, name) for name in ("snippet", "title", "url"))
    return Result(snippet, title, url)


def _text(told: Mapping[str, object], name: str) -> str:
    value = told.get(name)
    return "" if value is None else str(value)


def _code_of(error: BaseException) -> str:
    status = getattr(error, "status_code", None) or _status_of_answer(error)
    is_too_often = isinstance(error, RateLimited) or status == 429
    return "too_many_requests" if is_too_often else "unavailable"


def _status_of_answer(error: BaseException) -> object:
    return getattr(getattr(error, "response", None), "status_code", None)
