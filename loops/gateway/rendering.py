"""Rows as bytes of server-sent events; pure."""

import re
from collections.abc import Iterable

from .failing import Failure
from .json_rows import DONE, row_of
from .rounds import Surface
from .rows import Row

_LINE_END = re.compile(r"\r\n|\n|\r")


def sse(rows: Iterable[Row]) -> bytes:
    """Return the rows as events of a stream; one without a name has no line that names it."""
    return "".join(map(_event, rows)).encode("utf-8", "replace")


def _event(row: Row) -> str:
    name, data = row
    if "\n" in data or "\r" in data:
        # A reader puts the lines together again.
        data = "\ndata: ".join(_LINE_END.split(data))
    return f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"


def ping(surface: Surface) -> bytes:
    """Return a sign of life, which says nothing."""
    # One client fails on a comment that an empty line follows.
    return _PING if surface is Surface.MESSAGES else b": ping\n"


_PING = sse([("ping", '{"type": "ping"}')])


def error_rows(surface: Surface, failure: Failure) -> list[Row]:
    """Return the rows that end a stream by a failure."""
    row = error_row(surface, failure)
    return [row] if surface is Surface.MESSAGES else [row, DONE]


def error_row(surface: Surface, failure: Failure) -> Row:
    """Return the row that tells of a failure."""
    return row_of("error" if surface is Surface.MESSAGES else "", failure.body(surface))
