"""Rows whose data is JSON, read and written; pure."""

import json
from typing import cast

import orjson

from loops.blocks import Raw
from loops.providers.told import Json, fields

from .rows import BODY, Row

DONE: Row = ("", "[DONE]")
"""The last row of a chat completion's stream."""


def told_by(row: Row) -> Raw:
    """Return the object that the row's data is; an empty one where it is no object."""
    return fields(_loaded(row[1]))


def is_done(row: Row) -> bool:
    """Say whether the row is the last one of a chat completion's stream."""
    return row[1].strip() == DONE[1]


def row_of(name: str, told: Raw) -> Row:
    """Return the row that tells the object."""
    return name, dumped(told)


def body_row(body: Raw) -> Row:
    """Return the one row of a reply that comes whole."""
    return row_of(BODY, body)


def dumped(value: object) -> str:
    """Return the value as JSON text."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # Half of a character that came in two deltas, or what is nested deeper than orjson goes.
        return json.dumps(value, separators=(",", ":"))


def canonical_text(value: object) -> str:
    """Return the value as JSON text that is the same for the same value, however it was written."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _loaded(data: str) -> Json:
    try:
        return cast("Json", orjson.loads(data))
    except orjson.JSONDecodeError:
        pass
    try:
        # It takes half a character, as some services send one by pieces.
        return cast("Json", json.loads(data))
    except (ValueError, RecursionError):
        return None
