"""Where a request to Anthropic is marked, so that what repeats is read once; pure.

The service takes four marks at most, and none on empty text or on thinking. Marks that the caller
set stay, and ours come after them; of five the oldest goes.
"""

from collections.abc import Iterator
from typing import Any, cast

from loops.blocks import Raw

from .told import fields, is_blank

MOST = 4
"""How many marks the service takes."""

MARK = {"type": "ephemeral"}

_UNMARKED = frozenset({"thinking", "redacted_thinking"})


def mark(body: Raw, *, adds: bool, most: int = MOST) -> None:
    """Mark the ends of tools, system and conversation, and leave at most so many marks in all."""
    for part in _parts(body):
        if "cache_control" in part and not (part["cache_control"] and _takes_mark(part)):
            del part["cache_control"]
    # One of the caller's that lives longer may not stand behind one of ours.
    if adds and not any("ttl" in fields(part.get("cache_control")) for part in _parts(body)):
        for end in _ends(body):
            end.setdefault("cache_control", dict(MARK))
    marked = [part for part in _parts(body) if "cache_control" in part]
    for part in marked[: max(0, len(marked) - most)]:
        del part["cache_control"]


def _ends(body: Raw) -> Iterator[Raw]:
    """Yield the last part of each that can be marked: tools, system, the newest message."""
    newest = next((each for each in reversed(body["messages"]) if each["role"] == "user"), None)
    last: list[Raw] = newest["content"] if newest else []
    groups: list[list[Raw]] = [body["tools"], body["system"], last]
    for parts in groups:
        for part in reversed(parts):
            if _takes_mark(part):
                yield part
                break


def _parts(body: Raw) -> Iterator[Raw]:
    """Yield all parts in the order in which the service reads them."""
    yield from body["tools"]
    yield from body["system"]
    for message in body["messages"]:
        for part in message["content"]:
            yield from _inner(part)
            yield part


def _inner(part: Raw) -> Iterator[Raw]:
    """Yield the parts that a part is made of: those of a result, or of a document."""
    source = fields(part.get("source"))
    for inner in (part.get("content"), source.get("content")):
        if isinstance(inner, list):
            yield from (each for each in cast("list[Raw]", inner) if fields(each))


def _takes_mark(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if part.get("defer_loading"):
        return False
    return kind not in _UNMARKED and not is_blank(part)
