"""What a model's port may raise, in the words of our own errors.

The ports that ship raise `ProviderError`s. A port of one's own may let through what httpx raises:
what that says of the service is said here. Anything else is a fault of the port.
"""

import re
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus

import httpx

from .errors import (
    AgentError,
    InvalidRequest,
    LoopFailed,
    ProviderError,
    RateLimited,
    Timeout,
    Unauthorized,
    Unavailable,
)
from .guard import describe, unwrapped
from .jsonable import clean_text, cut_text

_PASSING = frozenset({408, 409, 429})
"""The statuses below 500 that another try may change."""

_MAX_BODY = 300

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]+)?")


def failure_of(port: str, error: Exception) -> Exception:
    """Return the error that the port's error is for a run; an error of ours is itself."""
    inner = unwrapped(error)
    match inner:
        case AgentError():
            return inner
        case httpx.TimeoutException():
            return Timeout(f"the model {port!r} did not answer in time: {describe(inner)}")
        case httpx.ReadError() | httpx.RemoteProtocolError():
            return Unavailable(f"the connection to the model {port!r} broke: {describe(inner)}")
        case httpx.RequestError():
            return Unavailable(f"the model {port!r} cannot be reached: {describe(inner)}")
        case httpx.HTTPStatusError():
            return _by_status(port, inner.response)
        case _:
            return LoopFailed(f"the model port {port!r} raised {describe(inner)}")


def _by_status(port: str, response: httpx.Response) -> ProviderError:
    status = response.status_code
    told = f"the model {port!r} answered {status} {response.reason_phrase}{_body(response)}"
    pause = _retry_after(response)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(told, retry_after=pause, status=status)
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return Timeout(told, retry_after=pause, status=status)
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(told, retry_after=pause, status=status)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Unauthorized(told, status=status)
    return InvalidRequest(told, status=status)


def _body(response: httpx.Response) -> str:
    # The body of a streamed response that nobody has read is not there any more.
    with suppress(httpx.ResponseNotRead):
        text = response.text.strip()
        return f": {cut_text(clean_text(text), _MAX_BODY)}" if text else ""
    return ""


def _retry_after(response: httpx.Response) -> timedelta | None:
    """Return how long the service asks to wait; None when it does not, or names a date."""
    told = response.headers.get("retry-after", "").strip()
    return timedelta(seconds=float(told)) if _SECONDS.fullmatch(told) else None
