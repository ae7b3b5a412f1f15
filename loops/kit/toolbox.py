"""The tools of the kit by name: what is built in, what a program brings, what servers offer."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from loops.blocks import Raw
from loops.tools import Tool

from .bash import make_bash
from .editor import edit, read
from .handlers import Handler, Label, handler_tool
from .web_fetch import web_fetch
from .web_search import Search, brave, make_web_search

SearchMode: TypeAlias = Literal["brave", "native"] | Search

BASH = timedelta(minutes=10)
"""How long a command may take where nobody says."""

NATIVE = {"type": "web_search_20250305", "name": "web_search"}
"""The search that Anthropic's service performs itself."""

BRAVE_KEY = "BRAVE_API_KEY"


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool, and how the kit deals with it."""

    tool: Tool
    label: Label | None = None
    is_shown: bool = False
    """Whether what it gives is shown to the reader as it is."""
    has_details: bool = False
    """Whether the reader is shown its result as part of its step."""
    once: bool = False
    """Whether it is called once a turn at most."""
    is_last: bool = False
    """Whether the run ends when it has succeeded: it is the person's turn then."""
    via: str = ""
    """The name by which a server knows it that offers it."""


class OwnOptions(TypedDict, total=False):
    """What else is said of a function that answers calls; see the fields of `Own`."""

    label: Label | None
    has_details: bool
    once: bool
    is_last: bool
    require_approval: bool | Callable[[Mapping[str, Any]], bool]
    timeout: timedelta | None
    concurrency: int | None
    idempotent: bool
    queue: str


@dataclass(frozen=True, slots=True)
class Own:
    """A function of the program's that answers calls, as it was given."""

    handler: Handler
    label: Label | None = None
    has_details: bool = False
    once: bool = False
    is_last: bool = False
    require_approval: bool | Callable[[Mapping[str, Any]], bool] = False
    timeout: timedelta | None = None
    concurrency: int | None = None
    idempotent: bool = False
    queue: str = "tools"

    def entry(self, name: str, spec: Raw | None) -> Entry:
        """Return the tool that it is."""
        tool = replace(
            handler_tool(name, self.handler, spec, timeout=self.timeout),
            require_approval=self.require_approval,
            concurrency=self.concurrency,
            idempotent=self.idempotent,
            queue=self.queue,
        )
        return Entry(
            tool,
            self.label,
            is_shown=not self.has_details,
            has_details=self.has_details,
            once=self.once,
            is_last=self.is_last,
        )


CAPABILITIES = ("Bash", "Editor", "WebFetch", "WebSearch")
"""The names by which built-in tools are allowed."""


def capabilities(
    *, bash_timeout: timedelta = BASH, web_search: SearchMode = "brave", network: bool = False
) -> dict[str, list[Entry]]:
    """Return the tools of each capability by its name."""
    search = web_search if callable(web_search) else brave()
    return {
        "Bash": [Entry(make_bash(network=network, timeout=bash_timeout), _command)],
        "Editor": [Entry(read, "Reading"), Entry(edit, "Editing")],
        "WebFetch": [Entry(web_fetch)],
        "WebSearch": [Entry(make_web_search(search)), Entry(web_fetch)],
    }


def _command(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("description") or arguments.get("command", ""))


def build_tools(
    allowed_tools: Iterable[str],
    custom: Iterable[Raw | Tool],
    vendor: str | None = None,
    web_search: SearchMode = "brave",
) -> list[Raw]:
    """Return the list of tools that a model is told, whoever its provider is.

    Args:
        allowed_tools: Names of capabilities: Bash, Editor, WebFetch, WebSearch; others are passed
            over.
        custom: Tools of one's own, as dicts with a name, a description and an `input_schema`, or as
            tools.
        vendor: Whose model it is; None for Anthropic's.
        web_search: Who searches: a function, "brave", or the model's own service.
    """
    known = capabilities(web_search=web_search)
    listed: dict[str, Raw] = {}
    for capability in allowed_tools:
        if capability == "WebSearch" and _is_native(vendor, web_search):
            offered = [NATIVE] if vendor in {None, "anthropic"} else []
        else:
            offered = [spec_of(entry.tool) for entry in known.get(capability, ())]
        listed |= {each["name"]: dict(each) for each in offered}
    for each in custom:
        spec = spec_of(each) if isinstance(each, Tool) else normalised(each)
        listed[spec["name"]] = spec
    return list(listed.values())


def _is_native(vendor: str | None, web_search: SearchMode) -> bool:
    if callable(web_search):
        return False
    is_theirs = vendor in {None, "anthropic"}
    return web_search == "native" or (is_theirs and not os.environ.get(BRAVE_KEY))


def spec_of(tool: Tool) -> Raw:
    """Return what a model is told of a tool."""
    return {
        "type": "custom",
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.schema),
    }


def normalised(spec: Mapping[str, Any]) -> Raw:
    """Return a tool's description in the one form; one that has a type is another service's."""
    if "type" in spec:
        return dict(spec)
    schema = spec.get("input_schema") or spec.get("inputSchema") or {"type": "object"}
    return {
        "type": "custom",
        "name": spec["name"],
        "description": spec.get("description", ""),
        "input_schema": dict(schema),
    }


class Toolbox:
    """All tools that one agent of the kit may call, by name."""

    def __init__(
        self, entries: Iterable[Entry], own: Mapping[str, Own], specs: Sequence[Raw | Tool]
    ) -> None:
        self._entries = {entry.tool.name: entry for entry in entries}
        told = {each["name"]: each for each in specs if not isinstance(each, Tool)}
        self._entries |= {
            each.name: Entry(each, is_shown=False) for each in specs if isinstance(each, Tool)
        }
        for name, each in own.items():
            spec = told.get(name)
            self._entries[name] = each.entry(name, None if spec is None else normalised(spec))

    def get(self, name: str) -> Entry | None:
        """Return the tool of the name, if there is one."""
        entry = self._entries.get(name)
        if entry is not None:
            return entry
        server, found, tool = name.partition("__")
        through = self._entries.get(f"mcp_{server}") if found else None
        return None if through is None else replace(through, via=tool, has_details=True)

    def hides(self, name: str) -> bool:
        """Say whether nobody is shown the arguments of a tool, or not all of them."""
        entry = self.get(name)
        return entry is not None and bool(entry.tool.redact)

    @property
    def tools(self) -> list[Tool]:
        """The tools themselves, for an app whose workers are to carry out their calls."""
        return [entry.tool for entry in self._entries.values()]
