"""JSON of strangers, read together with its text; pure."""

import json
from typing import cast

import orjson

from loops.jsonable import jsonable

from .told import Json


def read_json(data: bytes) -> tuple[str, Json]:
    """Return the text and what it says: None where it is no JSON.

    A text with halves of characters in it, which most readers refuse, is written anew without them.
    """
    text = data.decode("utf-8", "replace")
    try:
        return text, cast("Json", orjson.loads(data))
    except orjson.JSONDecodeError:
        return _lenient(text)


def _lenient(text: str) -> tuple[str, Json]:
    try:
        told = cast("Json", jsonable(json.loads(text)))
    except (ValueError, RecursionError):
        return text, None
    return orjson.dumps(told).decode(), told
