"""The heads of requests: bounded in bytes and in time, before anybody is known.

The parser has no limits of its own: it would gather a header without an end, each time anew, and
wait for ever for the rest of one. Both cost a stranger nothing and hold up everybody else.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import Refusal

HEAD_LIMIT = 64 * 1024
"""Bytes of a request's line and headers, or of what follows a body in chunks."""

HEAD_PATIENCE = timedelta(seconds=10)
"""How long a connection may take until the headers of its next request are complete."""

LINGER = timedelta(seconds=1)
"""How long a caller that was refused may take to read why."""

_TOO_LARGE = Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head_too_large",
    f"the request's line and headers are longer than {HEAD_LIMIT} bytes",
)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when the head of a request is too long or too slow.

    While an answer is on its way nothing is asked of the caller: a stream may stay open for days.
    """

    head_patience = HEAD_PATIENCE

    _unread = 0
    """Bytes that came since the parser last made something of them."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, in pieces that never hold more of a head than is allowed."""
        while data and not self.transport.is_closing():
            room = HEAD_LIMIT - self._unread
            piece, data = data[:room], data[room:]
            self._unread += len(piece)
            super().data_received(piece)
            if self._unread >= HEAD_LIMIT and not self.transport.is_closing():
                self._refuse()
                return
        if self._deadline is None and not self._is_answering:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._unread = 0
        self._forget_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._unread = 0
        super().on_message_complete()

    @property
    def _is_answering(self) -> bool:
        # Before the first request there is no cycle, whatever its type says.
        return bool(self.cycle) and not self.cycle.response_complete

    def _await_head(self) -> None:
        if not self.transport.is_closing():
            seconds = self.head_patience.total_seconds()
            self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self) -> None:
        if self._is_answering:
            self.transport.close()
            return
        self.flow.pause_reading()
        self.transport.write(_answer(_TOO_LARGE))
        self.transport.write_eof()
        self._forget_deadline()
        # With bytes unread, closing takes the answer from the caller before it is read.
        self._deadline = self.loop.call_later(LINGER.total_seconds(), self.transport.abort)


def _answer(refusal: Refusal) -> bytes:
    response = refusal.problem().response()
    lines = [f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}".encode()]
    lines += [b"%b: %b" % header for header in response.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])
