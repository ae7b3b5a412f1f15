"""What an MCP server may be given where it is set up, and how its secrets are kept out of texts."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from loops.errors import SetupError
from loops.guard import Raised, outcome_of_call

HIDDEN = "[hidden]"
"""What stands in an error instead of a secret."""

SHORTEST_SECRET = 6
"""How long a value has to be to be hidden: what is shorter stands in any text by chance."""

_NAME = re.compile(r"(?!.*__)[a-zA-Z0-9_-]{0,31}[a-zA-Z0-9-]")
"""Two underscores end the server's name in a tool's name, so there are none before."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")
_VARIABLE = re.compile(r"[^=\0]+")
_VARIABLE_VALUE = re.compile(r"[^\0]*")


def check_name(name: object) -> None:
    """Pass if a server can be named like this; like all below it raises `SetupError` if not."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SetupError(
            "an MCP server's name is 1 to 32 letters, digits, '-' or single '_' that are not its "
            f"end, not {name!r}"
        )


def check_command(name: str, command: object, args: object) -> None:
    """Pass if a program can be started like this."""
    if not _is_argument(command) or not command:
        raise SetupError(f"the MCP server {name!r} has command={command!r}; name a program")
    if not isinstance(args, list | tuple):
        raise SetupError(f"the MCP server {name!r} has args={args!r}; give a list of texts")
    for value in cast("Iterable[object]", args):
        if not _is_argument(value):
            raise SetupError(f"the MCP server {name!r} has {value!r} in args=; give texts")


def check_url(name: str, url: str) -> None:
    """Pass if a server can be spoken with at the URL."""
    parts = outcome_of_call(lambda: urlsplit(url))
    if not isinstance(parts, SplitResult) or parts.scheme not in {"http", "https"}:
        raise SetupError(f"the MCP server {name!r} has a url= without http:// or https://")
    if not parts.hostname or isinstance(outcome_of_call(lambda: parts.port), Raised):
        raise SetupError(f"the MCP server {name!r} has a url= without a host, or with a wrong port")


def check_secrets(name: str, option: str, values: Mapping[Any, Any] | None) -> None:
    """Pass if all headers, or variables, can be sent; an error names them without their values."""
    is_header = option == "headers"
    named, told = (_HEADER, _HEADER_VALUE) if is_header else (_VARIABLE, _VARIABLE_VALUE)
    for key, value in (values or {}).items():
        if not isinstance(key, str) or not named.fullmatch(key):
            raise SetupError(f"the MCP server {name!r} has {key!r} in {option}=; it is no name")
        if not isinstance(value, str) or not told.fullmatch(value):
            raise SetupError(
                f"the MCP server {name!r} has a value of {key!r} in {option}= that cannot be sent; "
                f"give text{' in ASCII without line breaks' if is_header else ''}"
            )


def check_time(name: str, option: str, value: object) -> None:
    """Pass if it is a time to wait."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise SetupError(
            f"the MCP server {name!r} is given {option}={value!r}; "
            "give a timedelta above zero, like timedelta(seconds=30)"
        )


def check_allowed(name: str, allowed: object) -> None:
    """Pass if it says which tools may be called."""
    if allowed is not None and not isinstance(allowed, list | tuple | set | frozenset):
        raise SetupError(
            f"the MCP server {name!r} is given allowed={allowed!r}; "
            "give a list of its tools' names, None for all"
        )


def shown_url(url: str) -> str:
    """Return the URL without what may be secret in it: who asks, and with what."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def without_secrets(text: str, values: Iterable[str]) -> str:
    """Return the text with each of the values hidden, and each of their words."""
    words = {word for value in values for word in (value, *value.split())}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= SHORTEST_SECRET:
            text = text.replace(word, HIDDEN)
    return text


def _is_argument(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
