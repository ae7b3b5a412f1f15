"""A run's events as a client of the loop kit reads them: `format=kit` of a run's stream.

A frame is one line of `data` with one dict, and `data: [DONE]` is the last, however the run ended;
a stream that ends without it broke off. The cursor is that of every other form. It stands on the
last frame of its event, so that whoever goes on from it misses no part and is told none twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson

from . import sse
from .errors import Refusal
from .frames import Batch, Frame
from .kit_parts import Telling, Told
from .streams import FRAMES, Form, Headers

KIT = "kit"

DONE = b"[DONE]"

_BREAKS = {"\u0085": b"\\u0085", "\u2028": b"\\u2028", "\u2029": b"\\u2029"}
"""What some clients take for the end of a line, though a stream's lines do not end there."""


class KitForm:
    """How one stream of a run is written down in the kit's dialect; it knows what it has told."""

    headers: Headers = FRAMES.headers

    def __init__(self, session_id: str) -> None:
        self.opening = _frame(_line({"type": "chat_id", "chat_id": session_id}))
        self._telling = Telling()

    def written(self, batches: Sequence[Batch]) -> bytes:
        """Return the frames of all that is shown, and the position after what is not."""
        frames = [frame for batch in batches for frame in batch.frames]
        lines = [(frame.position, line) for frame in frames for line in self._lines(frame)]
        ends = {position: index for index, (position, _) in enumerate(lines)}
        chunk = b"".join(
            [
                _frame(line, position if ends[position] == index else None)
                for index, (position, line) in enumerate(lines)
            ]
        )
        last = frames[-1].position
        return chunk if last in ends else chunk + sse.position_only(last)

    def heartbeat(self, position: bytes | None, /) -> bytes:
        """Return a ping, with the position where that has moved."""
        return _frame(_line({"type": "ping"}), position)

    def _lines(self, frame: Frame) -> Iterator[bytes]:
        event = Told.of(frame.line)
        for part in self._telling.told(event):
            yield _line(part)
        if event.is_last:
            yield DONE


def _line(part: Mapping[str, Any]) -> bytes:
    line = orjson.dumps(part)
    if not line.isascii():
        for mark, escaped in _BREAKS.items():
            line = line.replace(mark.encode(), escaped)
    return line


def _frame(line: bytes, position: bytes | None = None) -> bytes:
    place = b"" if position is None else b"id: %b\n" % position
    return b"%bdata: %b\n\n" % (place, line)


def is_kit(query: Mapping[str, str], form: Form | None) -> bool:
    """Say whether a reader of this query wants the kit's dialect.

    Args:
        query: What the request asks for.
        form: The form that it would get else; only a stream of frames can be told in the dialect.

    Raises:
        Refusal: When it asks for a format that is not known, or for what the dialect has not.
    """
    wanted = query.get("format")
    if wanted is None:
        return False
    if wanted != KIT:
        raise _refused(f"format is {KIT!r}, or left out, not {wanted[:50]!r}")
    if "types" in query:
        raise _refused("format=kit tells a run in its own types: leave `types` out")
    if form is not FRAMES:
        raise _refused(
            "format=kit is a stream: ask with 'Accept: text/event-stream' or stream=true"
        )
    return True


def refuse_format(query: Mapping[str, str]) -> None:
    """Pass if the query names no format: the events of a session have the usual ones alone.

    Raises:
        Refusal: When it names one.
    """
    if "format" in query:
        raise _refused("a session's events have no `format`: leave it out, or follow a run's")


def _refused(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "invalid_format", message)
