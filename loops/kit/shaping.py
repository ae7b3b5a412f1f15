"""What a tool gave, as the model is told it and as the reader is shown it; pure.

A tool may say both itself: `{"_model": …, "_ui": …}`, or a card for the reader,
`{"type": "ui", "action": …}`, perhaps with an `ack` for the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from loops.blocks import Raw, are_blocks
from loops.jsonable import jsonable

from .events import step
from .planned import Failure, Planned

WAITING = frozenset({"confirm", "connect"})
"""Cards by which a tool hands over to the person: the run ends with them."""

DETAILS = 3_000
"""How many characters of a result are shown with its step."""


@dataclass(frozen=True, slots=True)
class Output:
    """One answered call."""

    content: str | list[Raw]
    """What the model is told."""
    is_error: bool = False
    shown: list[Any] = field(default_factory=list[Any])
    """What the reader is shown."""
    ends: bool = False
    """Whether it is the person's turn now."""

    def block(self, call_id: str) -> Raw:
        """Return the block that answers the call."""
        told: Raw = {"type": "tool_result", "tool_use_id": call_id, "content": self.content}
        return {**told, "is_error": True} if self.is_error else told


def tool_result(block: Raw, answer: Any) -> Raw:
    """Return the block that answers a call with what `dispatch` gave for it."""
    return shaped(Planned(block, {}, _nothing), answer).block(str(block.get("id") or ""))


async def _nothing() -> None:
    """Stand for work that is done."""


def shaped(planned: Planned, given: Any) -> Output:
    """Return what becomes of what a call gave."""
    block, entry = planned.block, planned.entry
    if isinstance(given, Failure):
        return Output(str(given), is_error=True, shown=_details(planned, str(given), is_ok=False))
    # What a server of others gives is data, whatever it looks like.
    is_told = isinstance(given, Mapping) and not (entry is not None and entry.via)
    fields = cast("Mapping[str, Any]", given) if is_told else dict[str, Any]()
    call_id = block.get("id")
    if "_model" in fields:
        return Output(_content(fields["_model"]), shown=_named(fields.get("_ui"), call_id))
    if fields.get("type") == "ui":
        card = {name: value for name, value in fields.items() if name != "ack"}
        told = fields.get("ack") or f"Opened {_subject(fields)} for the user."
        is_waiting = str(fields.get("action")) in WAITING
        return Output(str(told), shown=[{**card, "id": call_id}], ends=is_waiting)
    if entry is not None and entry.tool.redact is True:
        return Output(_content(given), ends=entry.is_last)
    shown = _details(planned, given, is_ok=True)
    if entry is not None and entry.is_shown and _can_be_shown(given):
        shown = [cast("object", given)]
    is_last = entry is not None and entry.is_last
    return Output(_content(given), shown=shown, ends=is_last)


def _content(given: Any) -> str | list[Raw]:
    """Return what the model is told: text, blocks, or anything else as JSON."""
    if isinstance(given, str):
        return given
    if are_blocks(given):
        return given
    return orjson.dumps(jsonable(cast("object", given))).decode()


def _can_be_shown(given: Any) -> bool:
    """Say whether a reader can be shown what a function gave: text, or an event of its own."""
    if not isinstance(given, dict):
        return isinstance(given, str)
    kind: Any = cast("Raw", given).get("type")
    return isinstance(kind, str) and kind != "" and kind not in _FRAMES


_FRAMES = frozenset({"reset", "ping", "chat_id", "snapshot"})
"""What a stream says of itself: nothing that comes from a tool may seem to be that."""


def _named(shown: Any, call_id: object) -> list[Any]:
    if shown is None:
        return []
    each = cast("Sequence[Any]", shown) if isinstance(shown, list) else [shown]
    return [
        {**cast("Raw", one), "id": call_id} if isinstance(one, dict) else one
        for one in each
        if _can_be_shown(one)
    ]


def _subject(card: Mapping[str, Any]) -> str:
    return str(card.get("name") or card.get("path") or "the file")


def _details(planned: Planned, given: Any, *, is_ok: bool) -> list[Any]:
    """Return how the step ended, where the reader is shown that."""
    call_id = str(planned.block.get("id") or "")
    ended = {**step("", id=call_id), "ok": is_ok}
    del ended["step"]
    if planned.entry is not None and planned.entry.has_details:
        text = str(_content(given))
        ended["result"] = text if len(text) <= DETAILS else f"{text[:DETAILS]}\n…"
        return [ended]
    # Of a call that was refused the step itself has said so.
    return [] if is_ok or planned.entry is None else [ended]
