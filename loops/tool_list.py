"""The tools of an agent or an app: given in any form, each of a name of its own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from .errors import SetupError
from .tool_schema import innermost
from .tools import Tool, as_tool


def as_tools(values: Iterable[Tool | Callable[..., Any]]) -> list[Tool]:
    """Return all values as tools.

    Raises:
        SetupError: When they are no list of tools, or two different ones have one name.
    """
    listed = cast("object", values)
    if not isinstance(listed, Iterable):
        raise SetupError(f"tools is a list of tools, not {listed!r}")
    tools = [as_tool(each) for each in values]
    refuse_twins(tools)
    return tools


def refuse_twins(tools: Iterable[Tool]) -> None:
    """Pass if no two functions have one name.

    Raises:
        SetupError: When two have; the text names both.
    """
    known: dict[str, Tool] = {}
    for each in tools:
        twin = known.setdefault(each.name, each)
        if twin.function != each.function:
            raise SetupError(
                f"two tools are named {each.name!r}: {_place(twin)} and {_place(each)}; "
                "give one of them another name="
            )


def _place(named: Tool) -> str:
    function = innermost(named.function)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"


def tools_by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """Return the tools by their names; of two with one name the later one counts."""
    return {each.name: each for each in tools}
