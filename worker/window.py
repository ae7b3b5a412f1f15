"""What a run sees of its session: the messages from a place on, and what stands for those before.

A session is append-only, and may be longer than any model reads. A loop that has put its older
part together says so by a marker; whoever has the session next begins there, whatever its loop is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from loops.messages import Message, Messages

logger = logging.getLogger("loopmill.run")

PLACES = ("first_kept", "cleared")
"""What of a marker is a place: told as one in the session, used as one in a run's history."""


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """The part of a session that one run has, as it was when the run first began."""

    first: int = 0
    """The place in the session of the first message that is there."""
    marks: int = 0
    """How many markers the session had."""
    marker: Mapping[str, Any] | None = None
    """The newest of them, as it is stored."""
    messages: Messages = field(default_factory=Messages)

    @property
    def history(self) -> Messages:
        """What a loop begins with: what stands for the older part, and then the messages."""
        return Messages([*self._front, *self.messages])

    @property
    def _front(self) -> Messages:
        front = Messages.of((self.marker or {}).get("front", ()))
        # What the model has said does not follow directly on what it seems to have said.
        is_models = bool(self.messages) and self.messages[0].role == "assistant"
        return Messages(front[:1]) if is_models else front

    @property
    def _shift(self) -> int:
        return self.first - len(self._front)

    def shown_marker(self) -> dict[str, Any] | None:
        """Return the marker with its places in the history that the loop begins with."""
        if self.marker is None:
            return None
        return _moved(self.marker, -self._shift)

    def marked(self, marker: Mapping[str, Any], ordinal: int) -> tuple[tuple[int, int], Any]:
        """Return where a run's marker belongs, and the marker as it is stored.

        The first of both numbers is the place from which on messages are needed, the second is the
        marker's own.
        """
        told = _moved(marker, self._shift)
        return (told["first_kept"], self.marks + ordinal), told


def _moved(marker: Mapping[str, Any], by: int) -> dict[str, Any]:
    places = {name: max(0, int(marker[name]) + by) for name in PLACES if name in marker}
    return {**marker, **places}


def read_messages(stored: Iterable[bytes]) -> Messages:
    """Return a session's messages; one that nobody can read is empty, and keeps its place."""
    return Messages(_read(each) for each in stored)


def _read(stored: bytes) -> Message:
    try:
        raw: object = orjson.loads(stored)
        if isinstance(raw, dict):
            return Message.from_raw(cast("dict[str, Any]", raw))
        error: object = "it is no object"
    except ValueError as wrong:
        error = wrong
    logger.warning("! a message of a session cannot be read and is passed over: %s", error)
    return Message(role="system", content=[])
