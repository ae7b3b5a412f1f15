"""Where the messages of sessions are kept: the port, and the store of one process' memory.

A session is a list of messages that only grows, numbered from 0. A message takes its place once:
whoever comes too late with another one is told so, and has lost nothing but the race. A marker says
from which message on a run needs the session; what lies before it stays where it is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from loops.errors import RunError


class SessionConflict(RunError):  # noqa: N818 - the name says what happened, as all of its family
    """A place in a session is not the caller's to fill: it is taken, or the session is shorter."""

    def __init__(self, session: str, index: int) -> None:
        self.session = session
        self.index = index
        """The first place that is taken by another message, or lies past the session's end."""
        super().__init__(
            f"message {index} of session {session!r} cannot be written: its place is taken, or the "
            "session does not reach so far; load the session again"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored message with its place."""

    index: int
    """Its number in the session, from 0; without gaps, but where an entry is damaged."""
    message: dict[str, Any]
    """The role, the content, and whatever else was stored beside them."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a run needs of a session; it belongs to the caller, who may change what is in it."""

    entries: list[Entry]
    """The messages from the newest marker's `first_kept` on; without a marker, all of them."""
    length: int
    """How many messages the session has; where the next one is to be appended."""
    marker: dict[str, Any] | None
    """The newest marker, as it was appended."""
    damaged: int
    """How many entries could not be read on the way, and were passed over."""


class SessionStore(Protocol):
    """Where the messages of sessions are kept.

    Messages and markers are JSON objects; what JSON cannot say raises `TypeError` or `ValueError`
    and changes nothing. What is stored is never looked into, but for a marker's `first_kept`.
    """

    async def load(self, session_id: str) -> Window:
        """Return what a run needs; of an unknown session nothing. Loading changes nothing."""
        ...

    async def append(self, session_id: str, index: int, messages: Sequence[dict[str, Any]]) -> None:
        """Let the messages take the places from `index` on.

        Those that are in their places already, with the same content, are left alone: an append
        whose outcome is unknown may be tried again. If the process dies in the middle, the first
        of several messages may be there and the others not, but each is whole or not there.

        Raises:
            SessionConflict: When another message has one of the places, or when there would be a
                gap before the first; nothing is changed then.
        """
        ...

    async def mark(self, session_id: str, marker: dict[str, Any]) -> None:
        """Append a marker, from whose `first_kept`, a message's index, on runs need the session.

        It may name the place after the last message, and one before that of an earlier marker.
        Messages that were appended since the marker was made up stay in the window.

        Raises:
            SessionConflict: When the session does not reach as far as `first_kept`.
            ValueError: When `first_kept` is no index.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session; no-op if it is unknown. A late append past its start is refused."""
        ...


def encoded(value: Mapping[str, Any]) -> str:
    """Return a message or marker as JSON of one line, in ASCII, so that no text is refused.

    Raises:
        TypeError: When something in it has no form in JSON.
        ValueError: When it holds a number that JSON does not know, or is nested too deeply.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be stored") from error


def encoded_for(index: int, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the messages as JSON, for the places from `index` on.

    Raises:
        TypeError: When something in them has no form in JSON.
        ValueError: When JSON cannot say it either, or `index` is none.
    """
    if not is_index(index):
        raise ValueError(f"the place of a message is a number from 0 on, not {index!r}")
    return [encoded(each) for each in messages]


def first_kept_of(marker: Mapping[str, Any]) -> int:
    """Return from which message on runs need the session.

    Raises:
        ValueError: When the marker does not say it.
    """
    first = marker.get("first_kept")
    if is_index(first):
        return first
    raise ValueError(f"a marker's 'first_kept' is a message's index, not {first!r}")


def is_index(value: object) -> TypeGuard[int]:
    """Say whether the value numbers a message; Python's booleans are integers, but do not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def missing_of(
    session_id: str,
    index: int,
    texts: Sequence[str],
    length: int,
    there: Mapping[int, Mapping[str, Any]],
) -> Sequence[str]:
    """Return those of the messages that are not in their places yet, for a store to append.

    Args:
        session_id: The session, for the error.
        index: The place of the first message.
        texts: The messages, encoded.
        length: How many messages the session has.
        there: Those of them that stand at `index` and after, by their places.

    Raises:
        SessionConflict: When another message has one of the places, or there would be a gap.
    """
    if index > length:
        raise SessionConflict(session_id, index)
    taken = texts[: max(length - index, 0)]
    for place, text in enumerate(taken, index):
        if place not in there or not _is_same(there[place], text):
            raise SessionConflict(session_id, place)
    return texts[len(taken) :]


def _is_same(message: Mapping[str, Any], text: str) -> bool:
    # Python's own comparison takes 1, 1.0 and True for the same.
    return json.dumps(message, sort_keys=True) == json.dumps(json.loads(text), sort_keys=True)


@dataclass(slots=True)
class _Kept:
    messages: list[str] = field(default_factory=list[str])
    marker: str | None = None


class MemorySessions:
    """Sessions that end with the process, for tests and for what nobody needs to keep."""

    def __init__(self, limit: int = 10_000) -> None:
        if limit < 1:
            raise ValueError(f"there must be room for a session, not for {limit!r}")
        self._limit = limit
        # The oldest in use first. JSON text rather than objects, so that nobody shares them.
        self._sessions: dict[str, _Kept] = {}

    async def load(self, session_id: str) -> Window:
        """Return what a run needs of the session."""
        kept = self._sessions.get(session_id)
        if kept is None:
            return Window([], 0, None, 0)
        self._use(session_id, kept)
        marker = None if kept.marker is None else json.loads(kept.marker)
        first = 0 if marker is None else marker["first_kept"]
        texts = kept.messages[first:]
        entries = [Entry(index, json.loads(text)) for index, text in enumerate(texts, first)]
        return Window(entries, len(kept.messages), marker, 0)

    async def append(self, session_id: str, index: int, messages: Sequence[dict[str, Any]]) -> None:
        """Let the messages take the places from `index` on.

        Raises:
            SessionConflict: When a place is taken, or the session is shorter, or was forgotten.
        """
        texts = encoded_for(index, messages)
        if not texts:
            return
        kept = self._sessions.get(session_id) or _Kept()
        length = len(kept.messages)
        there = {place: json.loads(text) for place, text in enumerate(kept.messages[index:], index)}
        kept.messages += missing_of(session_id, index, texts, length, there)
        self._use(session_id, kept)

    async def mark(self, session_id: str, marker: dict[str, Any]) -> None:
        """Append a marker; only the newest is kept, since nobody asks for another one.

        Raises:
            SessionConflict: When the session does not reach as far as `first_kept`.
            ValueError: When `first_kept` is no index.
        """
        text, first = encoded(marker), first_kept_of(marker)
        kept = self._sessions.get(session_id) or _Kept()
        if first > len(kept.messages):
            raise SessionConflict(session_id, first)
        kept.marker = text
        self._use(session_id, kept)

    async def delete(self, session_id: str) -> None:
        """Forget the session."""
        self._sessions.pop(session_id, None)

    def _use(self, session_id: str, kept: _Kept) -> None:
        self._sessions.pop(session_id, None)
        self._sessions[session_id] = kept
        if len(self._sessions) > self._limit:
            del self._sessions[next(iter(self._sessions))]
