"""Frames of replies: rows of name and data, and the events that carry them; pure.

An event has a limit in size, so data that is long comes in pieces.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from loops.reply import Frames

Row = tuple[str, str]
"""One frame: its event's name, empty where it has none, and its data as it came."""

BODY = "body"
"""The name of a row that is no frame of a stream, but a whole reply."""

PIECE = 16 * 1024
"""How many characters of data an event takes: an escaped character may take twelve bytes."""


def packed(rows: Iterable[Row]) -> Iterator[Frames]:
    """Yield the events that carry the rows."""
    frames: list[list[Any]] = []
    size = 0
    for name, data in rows:
        for at in range(0, max(1, len(data)), PIECE):
            if size >= PIECE:
                yield Frames(frames)
                frames, size = [], 0
            piece = data[at : at + PIECE]
            is_last = at + PIECE >= len(data)
            frames.append([name, piece] if is_last else [name, piece, 1])
            size += len(piece)
    if frames:
        yield Frames(frames)


class Unpacker:
    """Puts rows together again that came in pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, event: Frames) -> list[Row]:
        """Return the rows that are complete with this event."""
        rows: list[Row] = []
        for name, data, *more in event.frames:
            if more:
                self._pieces.append(data)
            else:
                rows.append((name, "".join([*self._pieces, data]) if self._pieces else data))
                self._pieces = []
        return rows
