"""`Idempotency-Key`: the same request under the same key is done once."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request

from .errors import Refusal
from .requests import Body


def idempotency(
    request: Request, body: Body, *, but: frozenset[str] = frozenset()
) -> tuple[str, str] | None:
    """Return the digests of the request's key and of its body, None when it has no key.

    A key belongs to its route. The fields named in `but` say how to answer, not what to do.

    Raises:
        Refusal: When the key is empty or too long.
    """
    told = body.model_dump(exclude=set(but)) if "idempotency-key" in request.headers else {}
    return idempotency_of(request, told)


def idempotency_of(request: Request, body: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the digests of the request's key and of a body as it was sent, None without a key.

    Raises:
        Refusal: When the key is empty or too long.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= 255:
        message = f"an Idempotency-Key has 1 to 255 characters, not {len(key)}"
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_idempotency_key", message)
    content = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    route = f"{request.method} {request.url.path}"
    return sha256(f"{route}\n{key}".encode()).hexdigest(), sha256(content).hexdigest()
