"""Failures in the words of the protocol that the caller speaks; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from loops.blocks import Raw
from loops.errors import AgentError, ProviderError, UnknownModel
from loops.events import Custom
from loops.guard import describe

from .rounds import Surface

FAILURE = "failure"
"""The name of the event by which a gateway's run says how it fails."""

KINDS: dict[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""What a status is called; any other `invalid_request_error`, or `api_error` from 500 on."""

CHAT_KINDS: dict[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""The same in Chat Completions; any other from 500 on is `server_error`."""

STATUSES = {"provider_invalid_request": 400, "rate_limited": 429, "provider_timeout": 504}
"""The statuses of failures that no provider has answered with, by their code; 502 for others."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer."""

    status: int
    message: str
    kind: str = ""
    """As the provider named it; empty for what the status is called."""
    retry_after: timedelta | None = None
    code: str = ""
    """Our own code of the error."""

    def event(self) -> Custom:
        """Return what stands in the log."""
        after = None if self.retry_after is None else self.retry_after.total_seconds()
        told = {"status": self.status, "message": self.message, "kind": self.kind}
        return Custom(FAILURE, {"type": FAILURE, **told, "retry_after": after, "code": self.code})

    def body(self, surface: Surface, request_id: str = "") -> Raw:
        """Return the body of the answer that tells it."""
        if surface is Surface.MESSAGES:
            kind = self._kind(KINDS, "api_error")
            told: Raw = {"type": "error", "error": {"type": kind, "message": self.message}}
            return {**told, "request_id": request_id} if request_id else told
        kind = self._kind(CHAT_KINDS, "server_error")
        error = {"message": self.message, "type": kind, "param": None, "code": self.code or None}
        return {"error": error}

    def _kind(self, kinds: Mapping[int, str], other: str) -> str:
        default = "invalid_request_error" if self.status < 500 else other
        return self.kind or kinds.get(self.status, default)


def failure_in(event: object) -> Failure | None:
    """Return the failure that the event tells of; None for any other."""
    if not isinstance(event, Custom) or event.name != FAILURE:
        return None
    told: dict[str, Any] = event.value
    after = told["retry_after"]
    return Failure(
        told["status"],
        told["message"],
        told["kind"],
        None if after is None else timedelta(seconds=after),
        told["code"],
    )


def failure_of(error: BaseException) -> Failure:
    """Return what a caller is told of an error: the provider's own status where it has one."""
    if isinstance(error, ProviderError):
        said = error.said or _without_address(error)
        return Failure(_status(error), said, error.kind, error.retry_after, error.code)
    if isinstance(error, UnknownModel):
        return Failure(404, str(error), code="model_not_found")
    if isinstance(error, AgentError):
        return Failure(500, str(error), code=error.code)
    return Failure(500, describe(error), code="callback_failed")


def _status(error: ProviderError) -> int:
    if error.status is None:
        return STATUSES.get(error.code, 502)
    # What is no refusal is none of ours to pass on: a redirect, a success without a reply.
    return error.status if 400 <= error.status <= 599 else 502


def _without_address(error: ProviderError) -> str:
    """Return what the error says, but for what its connection says, which may name the address."""
    is_of_connection = isinstance(error.__cause__, httpx.TransportError)
    return str(error).partition(": ")[0] if is_of_connection else str(error)
