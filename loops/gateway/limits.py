"""How often a model may be asked again for one call: who may say it, and what is a number; pure."""

from collections.abc import Mapping
from typing import Any

from loops.errors import SetupError

NAME = "max_agentic_loops"


def loops_in(told: Mapping[str, Any], where: str) -> int | None:
    """Return the limit that stands in a mapping; None where there is none.

    Raises:
        SetupError: When it is no whole number above 0.
    """
    return loops_of(told.get(NAME), f"{NAME} of {where}")


def loops_of(value: object, where: str) -> int | None:
    """Return a limit as a number: also one that is written as text, or as a whole fraction.

    Raises:
        SetupError: When it is no whole number above 0.
    """
    if value is None:
        return None
    number = _whole(value)
    if number is None:
        raise SetupError(f"{where} must be an integer, got {value!r}")
    if number < 1:
        raise SetupError(f"{where} must be at least 1, got {number}")
    return number


def _whole(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _is_digits(value.strip()):
            return int(value)
        case _:
            return None


def _is_digits(text: str) -> bool:
    return text.isascii() and text.lstrip("+-").isdecimal() and len(text) < 20
