"""The border of the HTTP server: every request is identified here, before anything of it is read.

It is plain ASGI, so that streams go through untouched. Whatever is not named as open asks for a
key, whether a route exists or not.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .auth import Caller, Keyring, Knock, check_is_local, identify, now
from .errors import Refusal
from .wording import in_words_of

OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that everybody may ask for, and that tell nothing about anybody."""

REQUEST_ID = b"x-request-id"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9_-]{1,64}")


class Border:
    """Lets a request through with its caller, or answers it; each answer has an `X-Request-ID`.

    The id is the caller's own where it is one, else a new one.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keyring: Keyring,
        origins: Sequence[str],
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._origins = origins
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        if scope["type"] == "http":
            send = _marked(send, _request_id_of(scope))
            try:
                scope.setdefault("state", {})["caller"] = self._admitted(_knock_of(scope))
            except Refusal as refusal:
                await in_words_of(Request(scope), refusal.problem())(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _admitted(self, knock: Knock) -> Caller | None:
        if self._keyring.is_empty:
            check_is_local(knock, self._origins)
            return self._keyring.local
        return None if knock.path in OPEN else identify(knock, self._keyring, self._clock())


def _knock_of(scope: Scope) -> Knock:
    client = scope.get("client")
    query = scope["query_string"].decode("latin-1")
    return Knock(
        method=scope["method"],
        path=scope["path"],
        headers=tuple((name.lower(), value) for name, value in scope["headers"]),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        client=client[0] if client else None,
    )


def _request_id_of(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value)
    return b"req_" + secrets.token_hex(12).encode()


def _marked(send: Send, request_id: bytes) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message["headers"])
            # A request that is a run has the run's id.
            if not any(name == REQUEST_ID for name, _ in headers):
                headers.append((REQUEST_ID, request_id))
            message["headers"] = headers
        await send(message)

    return marked
