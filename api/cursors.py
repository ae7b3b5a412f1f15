"""Where a reader of events stands, as it says so in a query or a header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from .errors import Refusal

_SEQ = re.compile(r"[0-9]{1,15}")
_SESSION = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")
_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True, order=True)
class SessionCursor:
    """A place in a session's stream: the how-manieth run, and the last event read of it."""

    ordinal: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ordinal}.{self.seq}"


def given(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the cursor that the request carries, as text; the header beats the query.

    A header without a value is a client's way to say that it has read nothing yet.
    """
    return headers.get("last-event-id", "").strip() or query.get("after", "0")


def run_cursor(text: str) -> int:
    """Read the cursor of a run's stream.

    Raises:
        Refusal: When the text is no whole number.
    """
    if _SEQ.fullmatch(text) is None:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "invalid_cursor",
            f"a cursor is the seq of the last event read, a whole number, not {text[:50]!r}",
        )
    return int(text)


def session_cursor(text: str) -> SessionCursor:
    """Read the cursor of a session's stream; "0" is its beginning.

    Raises:
        Refusal: When the text is no `<ordinal>.<seq>`.
    """
    parts = _SESSION.fullmatch("0.0" if text == "0" else text)
    if parts is None:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "invalid_cursor",
            f"a cursor of a session is '<run ordinal>.<seq>', not {text[:50]!r}",
        )
    return SessionCursor(int(parts[1]), int(parts[2]))


def wanted_types(text: str | None) -> frozenset[str] | None:
    """Read a list of event types, None for all.

    Raises:
        Refusal: When a name of the list is none that a type can have.
    """
    if text is None:
        return None
    names = text.split(",")
    if len(names) > 100 or not all(_TYPE.fullmatch(name) for name in names):
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "invalid_types",
            f"types is a list such as 'text.delta,tool.finished', not {text[:100]!r}",
        )
    return frozenset(names)
