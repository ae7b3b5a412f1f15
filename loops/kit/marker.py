"""What a model is shown of a long history, told by three facts; the history itself stays whole.

messages     0 ………… first_kept ………… cleared ………… end
the model    a summary │ stubs        │ word for word
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from loops.blocks import Raw

from .stubs import changed, stubbed

ACKNOWLEDGEMENT = "Understood. I go on from there."
"""What the model is shown as its own answer to a summary."""

SEEN_PICTURE = "[A picture that was shown here before]"
"""What stands for a picture in a result that the model has seen."""

HEAD = 2
"""How many messages stand for those that are summed up: the summary and its acknowledgement."""


@dataclass(frozen=True)
class Marker:
    """How far a history is summed up, and how far it is shown in stubs only."""

    summary: str | None = None
    """The text that stands for all messages before `first_kept`."""
    first_kept: int = 0
    """The index of the first message that is still shown."""
    cleared: int = 0
    """The index of the first message that is shown with its old results whole."""

    def encode(self) -> dict[str, Any]:
        """Return the marker as JSON can carry it."""
        return {
            "summary": self.summary,
            "first_kept": self.first_kept,
            "cleared": self.cleared,
        }

    @classmethod
    def decode(cls, stored: Any) -> "Marker":
        """Return the marker that was stored; what is of a wrong kind counts as not there."""
        if not isinstance(stored, Mapping):
            return cls()
        fields = cast("Mapping[str, Any]", stored)
        summary = fields.get("summary")
        is_told = isinstance(summary, str) and bool(summary.strip())
        return cls(
            summary=summary if is_told else None,
            first_kept=_index(fields.get("first_kept")),
            cleared=_index(fields.get("cleared")),
        )

    def within(self, count: int) -> "Marker":
        """Return the marker for a history of so many messages."""
        return replace(
            self,
            first_kept=min(max(self.first_kept, 0), count),
            cleared=min(max(self.cleared, 0), count),
        )


def view(messages: Sequence[Raw], marker: Marker) -> list[Raw]:
    """Return what the model is shown of a history.

    In place of what is summed up stand the summary and its acknowledgement; what is cleared has
    stubs for its results. A picture in a result is shown once, as long as its message is the last.
    Messages that are shown as they are, are those of the history and no copies.
    """
    marker = marker.within(len(messages))
    whole = max(marker.first_kept, marker.cleared)
    rest = [*stubbed(messages[marker.first_kept : whole]), *messages[whole:]]
    head = head_before(head_of(marker.summary) if marker.summary else [], rest)
    shown = [*head, *rest]
    return [*(changed(message, _without_pictures) for message in shown[:-1]), *shown[-1:]]


def head_of(summary: str) -> list[Raw]:
    """Return the messages that stand for those that are summed up; both are internal."""
    return [
        {"role": "user", "content": summary, "internal": True},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": ACKNOWLEDGEMENT}],
            "internal": True,
        },
    ]


def head_before(head: list[Raw], rest: Sequence[Raw]) -> list[Raw]:
    """Return what stands before the rest: no acknowledgement where the model itself comes next.

    Two messages of the model in a row become one for some services, and what it thought has to come
    first in a message.
    """
    is_models = bool(rest) and rest[0].get("role") == "assistant"
    return head[:1] if is_models else head


def head_length(messages: Sequence[Raw]) -> int:
    """Return how many messages at the beginning stand for a summary: `HEAD`, or none."""
    if len(messages) < HEAD or not all(each.get("internal") for each in messages[:HEAD]):
        return 0
    roles = [each.get("role") for each in messages[:HEAD]]
    return HEAD if roles == ["user", "assistant"] else 0


def _index(value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return max(0, cast("int", value)) if is_number else 0


def _without_pictures(block: Raw) -> Raw:
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return block
    parts = cast("list[object]", content)
    if not any(_is_picture(part) for part in parts):
        return block
    seen = {"type": "text", "text": SEEN_PICTURE}
    return {**block, "content": [dict(seen) if _is_picture(part) else part for part in parts]}


def _is_picture(part: object) -> bool:
    return isinstance(part, dict) and cast("Raw", part).get("type") == "image"


__all__ = [
    "ACKNOWLEDGEMENT",
    "HEAD",
    "SEEN_PICTURE",
    "Marker",
    "head_before",
    "head_length",
    "head_of",
    "view",
]
