"""Where a request to Anthropic is marked, so that what repeats is read once; pure.

The service takes four marks at most, and none on empty text or on thinking. Marks that the caller
set stay, and ours come after them; of five the oldest goes.
"""

from collections.abc import Iterator
from typing import Any

from loops.blocks import Raw

from .told import fields, is_blank

MOST = 4
"""How many marks the service takes."""

MARK = {"type": "ephemeral"}

_UNMARKED = frozenset({"thinking", "redacted_thinking"})


def mark(body: Raw, *, adds: bool) -> None:
    """Mark the ends of tools, system and conversation, and leave at most four marks in all."""
    for part in _parts(body):
        if "cache_control" in part and not _takes_mark(part):
            del part["cache_control"]
    # One of the caller's that lives longer may not stand behind one of ours.
    if adds and not any("ttl" in fields(part.get("cache_control")) for part in _parts(body)):
        for end in _ends(body):
            end.setdefault("cache_control", dict(MARK))
    marked = [part for part in _parts(body) if "cache_control" in part]
    for part in marked[: max(0, len(marked) - MOST)]:
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
        yield from message["content"]


def _takes_mark(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if part.get("defer_loading"):
        return False
    return kind not in _UNMARKED and not is_blank(part)
