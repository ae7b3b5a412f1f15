"""Plain functions that answer calls, as tools: `handler(inp)` or `handler(inp, ctx)`.

A handler gets the arguments as one dict. An `async def` is awaited, a plain `def` runs in a thread.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from loops.blocks import Raw
from loops.errors import SetupError
from loops.jsonable import cut_text
from loops.tool_context import ToolContext
from loops.tool_schema import innermost
from loops.tools import Tool

Handler = Callable[..., Any]
Label = str | Callable[[Mapping[str, Any]], str]
"""What a reader is shown while a tool runs: text, or a function of the arguments."""

ANYTHING: Raw = {"type": "object", "properties": {}}

SHOWN = 120
"""How many characters of an argument stand for a label."""


@dataclass(frozen=True, slots=True)
class _Plain:
    """Calls a handler; in a thread, since it is no `async def`."""

    handler: Handler
    takes_context: bool

    def __call__(self, inp: dict[str, Any], ctx: ToolContext) -> Any:
        return self.handler(inp, ctx) if self.takes_context else self.handler(inp)


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Calls a handler that is awaited."""

    handler: Handler
    takes_context: bool

    async def __call__(self, inp: dict[str, Any], ctx: ToolContext) -> Any:
        answer: Any = self.handler(inp, ctx) if self.takes_context else self.handler(inp)
        return await answer if inspect.isawaitable(answer) else answer


def handler_tool(
    name: str, handler: Handler, spec: Raw | None = None, *, timeout: timedelta | None = None
) -> Tool:
    """Return the tool that a handler is.

    Args:
        name: By what the model calls it.
        handler: A function of the arguments, and of the `ToolContext` if it takes two.
        spec: What the model is told of it.
        timeout: How long a call may take.

    Raises:
        SetupError: When it cannot be called like that.
    """
    if not callable(handler):
        raise SetupError(f"the handler of {name!r} is a function of a dict, not {handler!r}")
    schema = dict((spec or {}).get("input_schema") or ANYTHING)
    is_awaited = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object may be called like a function
    )
    make = _Awaited if is_awaited else _Plain
    return Tool(
        function=make(handler, _takes_context(name, handler)),
        name=name,
        description=str((spec or {}).get("description", "")),
        schema=schema,
        check=_check_of(schema),
        context_parameter="ctx",
        timeout=timeout,
    )


def handler_of(tool: Tool) -> Handler | None:
    """Return the handler that a tool was made of, if it was."""
    function = tool.function
    return function.handler if isinstance(function, _Plain | _Awaited) else None


def told(tool: Tool, change: Callable[[ToolContext], ToolContext]) -> Tool:
    """Return the tool as it is when its context is changed before it gets it."""
    function, name = tool.function, tool.context_parameter
    if name is None:
        return tool
    if inspect.iscoroutinefunction(innermost(function)):

        async def awaited(**given: Any) -> Any:
            return await function(**{**given, name: change(given[name])})

        return replace(tool, function=awaited)

    def plain(**given: Any) -> Any:
        return function(**{**given, name: change(given[name])})

    return replace(tool, function=plain)


def label_of(label: Label | None, arguments: Mapping[str, Any]) -> str:
    """Return what the reader is shown: the label, or else the first text among the arguments."""
    if isinstance(label, str):
        return label
    if label is not None:
        return str(label(arguments))
    texts = (each.strip() for each in arguments.values() if isinstance(each, str))
    first = next((each for each in texts if each), "")
    return first if len(first) <= SHOWN else f"{cut_text(first, SHOWN).splitlines()[0]}…"


def _takes_context(name: str, handler: Handler) -> bool:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except ValueError:
        return False
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    places = [each for each in parameters if each.kind in kinds]
    has_rest = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    needed = [each for each in places if each.default is each.empty]
    if (not places and not has_rest) or len(needed) > 2:
        raise SetupError(
            f"the handler of {name!r} takes the arguments as a dict, and perhaps the context; "
            f"not {len(needed)} parameters"
        )
    return len(places) > 1


def _check_of(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    required = [str(each) for each in schema.get("required", ())]

    def check(given: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name in required if name not in given]
        if missing:
            raise ValueError(f"{', '.join(map(repr, missing))} missing")
        return {"inp": dict(given)}

    return check
