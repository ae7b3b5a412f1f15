"""Names: what they may be made of, and which known one was meant by one that is not known."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeGuard

from .errors import SetupError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

NAME_RULE = "1 to 64 letters, digits, '_' or '-'"
"""What agents and tools are named with: providers, paths and keys take no other names."""


def is_name(value: object) -> TypeGuard[str]:
    """Say whether an agent or a tool can be named like this."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names what is near; nothing if nothing is."""
    near = get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def refuse_unknown(given: Iterable[str], known: Iterable[str], *, subject: str) -> None:
    """Pass if all options that are given exist.

    Raises:
        SetupError: When one does not; the text names what is near.
    """
    options = sorted(known)
    for option in given:
        if option not in options:
            mend = did_you_mean(option, options) or f"; it has {', '.join(options)}"
            raise SetupError(f"{subject} has no option {option!r}{mend}")
