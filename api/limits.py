"""What a request may bring: a bounded body, and JSON that means the same to every reader.

JSON is refused that parsers disagree on or choke at: deep nesting, numbers beyond 64 bits or
without an end, duplicate keys, lone surrogates, NUL. Such a body is the caller's mistake, never a
fault of the server.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import orjson
from starlette.requests import ClientDisconnect, Request

from loops.guard import Raised
from loops.tasks import in_thread

from .errors import Refusal

BODY_LIMIT = 10 * 1024 * 1024
"""Bytes of a body."""

BODY_PATIENCE = timedelta(seconds=30)
"""How long a body may take to arrive."""

DEPTH_LIMIT = 64
"""How deep arrays and objects may stand in each other."""

PART_LIMIT = 500_000
"""How many strings, brackets and commas a body may hold."""

IN_PLACE = 64 * 1024
"""The length up to which a body is read at once; a longer one must not hold up everybody else."""

# Possessive, and content with a string that never ends: no body makes the search go back.
_PARTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_INTEGERS = range(-(2**63), 2**63)


async def read_body(
    request: Request, *, limit: int = BODY_LIMIT, patience: timedelta = BODY_PATIENCE
) -> bytes:
    """Return the request's body, and read no further than the limit.

    Raises:
        Refusal: 413 when it is longer than the limit, 408 when it takes too long, 400 when its
            length is nonsense or the caller left.
    """
    announced = request.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()):
        raise _bad("invalid_length", f"the body's length is {announced[:50]!r}, which is no number")
    if len(announced) > 15 or int(announced) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(patience.total_seconds()):
            return await _collect(request, limit)
    except TimeoutError as error:
        raise _refused_body(HTTPStatus.REQUEST_TIMEOUT, "body_timeout", "is too slow") from error
    except ClientDisconnect as error:
        raise _bad("incomplete_body", "the body broke off") from error


async def _collect(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def check_is_json(headers: Mapping[str, str]) -> None:
    """Insist on a content type that no page can send without being asked first.

    Raises:
        Refusal: 415 for another content type, or a compressed body.
    """
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json" or headers.get("content-encoding", "identity") != "identity":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            f"send JSON, uncompressed, with 'Content-Type: application/json', not {kind[:50]!r}",
        )


async def read_json(request: Request, *, limit: int = BODY_LIMIT) -> Any:
    """Return the JSON that the request carries.

    Raises:
        Refusal: When the body, its type or its JSON is beyond what is allowed here.
    """
    check_is_json(request.headers)
    body = await read_body(request, limit=limit)
    if len(body) <= IN_PLACE:
        return parse_json(body)
    parsed = await in_thread(partial(parse_json, body), name="json")
    if isinstance(parsed, Raised):
        raise parsed.error
    return parsed


def parse_json(body: bytes) -> Any:
    """Return what the body says.

    Raises:
        Refusal: 400 for anything that is not plain, bounded JSON.
    """
    _check_structure(body)
    try:
        orjson.loads(body)  # the strict one: text, surrogates, literals
        value = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except ValueError as error:
        raise _bad("invalid_json", f"the body is not JSON as it should be: {error}") from error
    if rb"\u0000" in body and _has_nul(value):
        raise _bad("invalid_json", "the body holds a NUL character, which no text here may have")
    return value


def _check_structure(body: bytes) -> None:
    depth = 0
    for count, part in enumerate(_PARTS.finditer(body)):
        sign = part.group()[:1]
        depth += (sign in b"[{") - (sign in b"]}")
        if depth > DEPTH_LIMIT:
            raise _bad("json_too_deep", f"the body is nested deeper than {DEPTH_LIMIT} levels")
        if count > PART_LIMIT:
            raise _bad("json_too_large", f"the body has more than {PART_LIMIT} parts")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = next(name for name, times in Counter(n for n, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice[:100]!r} stands twice in one object")
    return members


def _integer(text: str) -> int:
    if len(text) > 20 or int(text) not in _INTEGERS:
        raise ValueError(f"the number {text[:30]} does not fit into 64 bits")
    return int(text)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return any("\0" in name or _has_nul(each) for name, each in members.items())
    if isinstance(value, list):
        return any(_has_nul(each) for each in cast(list[object], value))
    return isinstance(value, str) and "\0" in value


def _bad(code: str, message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, code, message)


def _too_large(limit: int) -> Refusal:
    what = f"is longer than {limit} bytes"
    return _refused_body(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", what)


def _refused_body(status: HTTPStatus, code: str, what: str) -> Refusal:
    # The rest of the body is not read, so the connection cannot carry another request.
    return Refusal(status, code, f"the body {what}", headers={"Connection": "close"})
