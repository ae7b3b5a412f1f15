"""What JSON of strangers says, if it is of the kind that is looked for; pure."""

from typing import Any, cast

from loops.blocks import Raw

Json = dict[str, Any] | list[Any] | str | float | bool | None
"""Whatever JSON can say."""


def word(value: object) -> str:
    """Return the value if it is text, and nothing for anything else."""
    return value if isinstance(value, str) else ""


def whole_number(value: object) -> int | None:
    """Return the value if it is a whole number, and None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def fields(value: object) -> dict[str, Any]:
    """Return the value if it is an object, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """Return the value if it is a list, and an empty one for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; of anything else none."""
    return [cast("dict[str, Any]", each) for each in listed(value) if isinstance(each, dict)]


def is_blank(part: Raw) -> bool:
    """Whether the part is text that says nothing, which services refuse."""
    return part.get("type") == "text" and not word(part.get("text")).strip()
