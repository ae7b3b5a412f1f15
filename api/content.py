"""The content of a message as a request brings it: a text, or blocks that the toolkit can read.

What cannot be read is refused here, with its place: a run that has been accepted would fail by it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Discriminator, JsonValue, ValidationError
from pydantic_core import PydanticCustomError

from loops.messages import Message

TEXT, LISTED = "<text>", "<list>"
"""The two forms of a content, as faults name them on their way; no caller sees these names."""

Members = dict[str, JsonValue]


def _readable(block: Members) -> Members:
    if not isinstance(block.get("type"), str):
        raise PydanticCustomError("block", "a block of the content has a 'type', a string")
    try:
        Message.from_raw({"role": "user", "content": [block]})
    except ValidationError as error:
        raise _unreadable(error) from error
    return block


def _unreadable(error: ValidationError) -> PydanticCustomError:
    fault = error.errors(include_url=False)[0]
    _, _, kind, field = fault["loc"][:4]
    why = "is missing" if fault["type"] == "missing" else "cannot be read"
    told = {"kind": str(kind), "field": str(field), "why": why}
    return PydanticCustomError("block", "the {field} of a block of type {kind} {why}", told)


def _form(value: object) -> str | None:
    if isinstance(value, str):
        return TEXT
    return LISTED if isinstance(value, list) else None


def either(what: str) -> Discriminator:
    """Return how a text is told from a list of something, and what is said to anything else."""
    return Discriminator(
        _form,
        custom_error_type="form",
        custom_error_message=f"a text, or a list of {what}",
    )


Block = Annotated[Members, AfterValidator(_readable)]
"""A part of a message; a block of a kind that nobody here knows is taken as it is."""
