"""What stands in Redis for a job and for its result: JSON, so that no reader runs foreign code.

`dumps` and `loads` are the serialisers that an `ArqRedis` is given to speak with our queues. An
exception is stored as its type's name and its message, and comes back as a `RemoteError`.
"""
# ruff: noqa: N818 - the names say what happened; both are errors

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from loops.jsonable import clean_text, cut_text

VERSION = 1
"""The newest version of a payload that this program reads."""

DEPTH_LIMIT = 64
LATEST = 32_503_680_000_000
"""The year 3000, in ms since the epoch."""

MESSAGE_LIMIT = 4096
"""How much of an exception's message is kept."""

JSON = Any
"""A value that JSON can say: None, a boolean, number or text, or a list or mapping of these."""


class BadPayload(ValueError):
    """The bytes are no job; the text says what is wrong with them, and never shows them."""


class RemoteError(Exception):
    """A job's failure, as its result tells it: the name of the error's type and its message."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message


@dataclass(frozen=True, slots=True)
class Payload:
    """A job, as its queue entry describes it."""

    function: str
    arguments: list[JSON]
    named: dict[str, JSON]
    version: int
    enqueued: int
    """When it was enqueued, in ms, by the clock of whoever did so."""
    first_try: int
    """The try from which arq's counter starts; 1 unless the enqueuer said otherwise."""

    @property
    def is_newer(self) -> bool:
        """Whether it was written by a program that knows more than this one."""
        return self.version > VERSION


def encode_job(function: str, arguments: Sequence[JSON], *, enqueued: int) -> bytes:
    """Return the job's bytes, as arq and `decode_job` read them.

    Raises:
        TypeError: When an argument has no form in JSON.
        ValueError: When a number is not finite, or the arguments are nested too deeply.
    """
    named = {"v": VERSION}
    return dumps({"t": None, "f": function, "a": list(arguments), "k": named, "et": enqueued})


def decode_job(raw: bytes) -> Payload:
    """Read a job.

    Raises:
        BadPayload: When the bytes are no job.
    """
    stored = loads(raw)
    named = dict(stored["k"])
    version = named.pop("v", VERSION)
    if type(version) is not int or version < 1:
        raise BadPayload("the payload's version is not a positive number")
    if not 0 <= stored["et"] < LATEST:
        raise BadPayload("the payload's time lies outside of all calendars")
    return Payload(stored["f"], stored["a"], named, version, stored["et"], stored["t"] or 1)


def dumps(job: dict[str, Any]) -> bytes:
    """Return the bytes of arq's dictionary of a job or a result.

    Raises:
        TypeError: When a value has no form in JSON.
        ValueError: When a number is not finite, or a value is nested too deeply.
    """
    failure = job.get("r")
    if isinstance(failure, BaseException):
        job = job | {"r": _describe(failure)}
    _check(job, DEPTH_LIMIT)
    return orjson.dumps(job)


def loads(raw: bytes) -> dict[str, Any]:
    """Return arq's dictionary of a job or a result.

    Raises:
        BadPayload: When the bytes are neither.
    """
    try:
        stored = orjson.loads(raw)
    except orjson.JSONDecodeError:
        # The cause is left out on purpose: its text carries the whole document.
        raise BadPayload("the payload is no JSON") from None
    if not isinstance(stored, dict):
        raise BadPayload("the payload is no object")
    if raw.count(b"[") + raw.count(b"{") > DEPTH_LIMIT and _depth(cast(JSON, stored)) > DEPTH_LIMIT:
        raise BadPayload(f"the payload is nested deeper than {DEPTH_LIMIT} levels")
    payload = cast(dict[str, Any], stored)
    for key, kinds in _SHAPE.items():
        if not isinstance(payload.get(key), kinds) or isinstance(payload[key], bool):
            raise BadPayload(f"the payload has no usable {key!r}")
    if payload.get("s") is False:
        payload["r"] = _restore(payload.get("r"))
    return payload


_SHAPE: dict[str, type | tuple[type, ...]] = {
    "f": str,
    "a": list,
    "k": dict,
    "et": int,
    "t": (int, type(None)),
}


def _describe(error: BaseException) -> dict[str, str]:
    if isinstance(error, RemoteError):
        return {"type": error.type_name, "message": error.message}
    message = cut_text(clean_text(str(error)), MESSAGE_LIMIT)
    return {"type": type(error).__name__, "message": message}


def _restore(stored: JSON) -> JSON:
    if not isinstance(stored, dict):
        return stored
    described = cast(dict[str, Any], stored)
    if not isinstance(name := described.get("type"), str):
        return described
    if name == asyncio.CancelledError.__name__:
        # arq tells an aborted job by the class of its result.
        return asyncio.CancelledError()
    return RemoteError(name, str(described.get("message", "")))


def _check(value: JSON, levels: int) -> None:
    """Refuse what orjson would write in silence as something else."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} has no form in JSON: send it as text")
    elif isinstance(value, Mapping | list | tuple):
        if levels == 0:
            raise ValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
        inner = cast(Mapping[str, JSON] | Sequence[JSON], value)
        for part in inner.values() if isinstance(inner, Mapping) else inner:
            _check(part, levels - 1)
    elif not isinstance(value, str | int | None):
        raise TypeError(f"a {type(value).__name__} has no form in JSON: send its parts")


def _depth(value: JSON) -> int:
    level: list[JSON] = [value]
    depth = 0
    while level := [inner for outer in level for inner in _children(outer)]:
        depth += 1
    return depth


def _children(value: JSON) -> Sequence[JSON]:
    if isinstance(value, dict):
        return list(cast(dict[str, JSON], value).values())
    return cast(Sequence[JSON], value) if isinstance(value, list) else ()
