"""What an `LLM` may be told: each value is looked at when it is said, not when a run needs it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from loops.errors import InvalidRequest, SetupError
from loops.naming import NAME_RULE, did_you_mean, is_name
from loops.providers.thinking import wish_of
from loops.tools import Tool

from .toolbox import CAPABILITIES


def _is_number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value, 1)


def _thinks(value: object) -> bool:
    try:
        wish_of({"thinking": value})
    except InvalidRequest:
        return False
    return True


def _are_tools(value: object) -> bool:
    return isinstance(value, Iterable) and all(_is_tool(each) for each in cast("Any", value))


def _is_tool(value: object) -> bool:
    if not isinstance(value, Mapping):
        return isinstance(value, Tool)
    return is_name(cast("Mapping[str, Any]", value).get("name"))


def _are_words(value: object) -> bool:
    named = cast("Mapping[object, object]", value)
    is_named = value is None or isinstance(value, Mapping)
    return is_named and all(
        isinstance(each, str) for pair in (named or {}).items() for each in pair
    )


def _is_search(value: object) -> bool:
    return callable(value) or value in {"brave", "native"}


_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "system": (lambda value: isinstance(value, str), "give text"),
    "tools": (
        _are_tools,
        f"give a list of tools, or of dicts with a 'name' of {NAME_RULE} and an 'input_schema'",
    ),
    "max_tokens": (_is_count, "give a whole number above zero"),
    "context_window": (_is_count, "give a whole number of tokens above zero"),
    "bash_timeout": (lambda value: _is_number(value, 0.001), "give a number of seconds"),
    "base_url": (lambda value: isinstance(value, str), "give an address"),
    "api_key": (lambda value: isinstance(value, str), "give text"),
    "headers": (_are_words, "give a dict of text"),
    "thinking": (_thinks, "give None, 'adaptive', 'low', 'medium', 'high' or a number of tokens"),
    "web_search": (_is_search, "give a function, 'brave' or 'native'"),
}
"""What a value may be, and the mend of one that it may not."""

_SECRET = frozenset({"api_key", "headers"})


def check(given: Mapping[str, Any]) -> None:
    """Pass if an agent can be told this.

    Raises:
        SetupError: When it cannot; the text names the value and the mend.
    """
    for name, value in given.items():
        fits, mend = _FITS.get(name, (lambda _: True, ""))
        if not fits(value):
            shown = "what it was given" if name in _SECRET else repr(value)
            raise SetupError(f"LLM().{_SAID.get(name, name)}(…) takes no {shown}; {mend}")


_SAID = {"context_window": "context"}


def check_price(price: Mapping[str, float]) -> None:
    """Pass if all prices are numbers.

    Raises:
        SetupError: When one is not, or is below zero.
    """
    for name, value in price.items():
        if not _is_number(value, 0.0):
            raise SetupError(f"the price of {name} is a number from zero on, not {value!r}")


def check_capabilities(names: Iterable[str]) -> None:
    """Pass if no name is nearly that of a built-in tool.

    Raises:
        SetupError: When one is; the text names which was meant.
    """
    for name in names:
        if name not in CAPABILITIES and (near := did_you_mean(name, CAPABILITIES)):
            raise SetupError(f"there is no built-in tool {name!r}{near}")


def check_answers(tools: Iterable[Mapping[str, Any] | Tool], answered: Iterable[str]) -> None:
    """Pass if each function answers a tool that the model is told of.

    Raises:
        SetupError: When one does not; the text names which was meant.
    """
    names = [each.name if isinstance(each, Tool) else str(each["name"]) for each in tools]
    for name in answered:
        if name not in names:
            raise SetupError(
                f"LLM().on({name!r}, …) answers a tool that no model is told of: give it to tools()"
                f"{did_you_mean(name, names)}"
            )
