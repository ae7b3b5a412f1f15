"""What a caller is told when something is refused: one table, and problem JSON (RFC 9457).

Routes raise and never build an error response. A body holds the error's own words, which name ids
and fields of the caller's; what an unforeseen error says stays in the server's log.
"""

# ruff: noqa: N818 - the names say what happened, as those of the tree do

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from math import ceil
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from loops.errors import (
    AgentError,
    AlreadySettled,
    Busy,
    HookGone,
    IdempotencyConflict,
    InvalidInput,
    MemoryFull,
    QueueFull,
    RequestError,
    SessionBusy,
    SessionMovedOn,
    StillRunning,
    UnknownCall,
    UnknownHook,
    UnknownLoop,
    UnknownModel,
    UnknownRun,
    UnknownSession,
    WaitingForHook,
)
from worker.insist import is_passing

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

RETRY_AFTER = timedelta(seconds=2)
"""When to try again after Redis did not answer."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An answer that says what is wrong."""

    status: HTTPStatus
    code: str
    detail: str
    is_retryable: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: tuple[Mapping[str, Any], ...] = ()

    def body(self) -> bytes:
        """Return the problem as JSON."""
        fields: dict[str, Any] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.is_retryable,
        }
        if self.errors:
            fields["errors"] = self.errors
        return orjson.dumps(fields)

    def response(self) -> Response:
        """Return the problem as a response."""
        return Response(self.body(), self.status, dict(self.headers), media_type=MEDIA_TYPE)


PASSING = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""Statuses after which the same request may succeed later."""


class Refusal(RequestError):
    """A request that the HTTP border turns away, with its answer."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = code
        self.headers = dict(headers or {})

    def problem(self) -> Problem:
        """Return the answer."""
        is_retryable = self.status in PASSING
        return Problem(
            self.status, self.kind, str(self), is_retryable=is_retryable, headers=self.headers
        )


def invalid_request(message: str) -> Refusal:
    """Return the refusal of a request that says what cannot be used."""
    return Refusal(HTTPStatus.BAD_REQUEST, "invalid_request", message)


class RedisAway(AgentError):
    """Redis does not answer now."""

    code = "unavailable"


STATUSES: dict[type[AgentError], HTTPStatus] = {
    UnknownRun: HTTPStatus.NOT_FOUND,
    UnknownSession: HTTPStatus.NOT_FOUND,
    UnknownLoop: HTTPStatus.NOT_FOUND,
    UnknownModel: HTTPStatus.NOT_FOUND,
    UnknownHook: HTTPStatus.NOT_FOUND,
    UnknownCall: HTTPStatus.NOT_FOUND,
    AlreadySettled: HTTPStatus.CONFLICT,
    HookGone: HTTPStatus.GONE,
    IdempotencyConflict: HTTPStatus.CONFLICT,
    SessionBusy: HTTPStatus.CONFLICT,
    SessionMovedOn: HTTPStatus.CONFLICT,
    StillRunning: HTTPStatus.CONFLICT,
    WaitingForHook: HTTPStatus.CONFLICT,
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    QueueFull: HTTPStatus.TOO_MANY_REQUESTS,
    MemoryFull: HTTPStatus.SERVICE_UNAVAILABLE,
    Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    RedisAway: HTTPStatus.SERVICE_UNAVAILABLE,
    RequestError: HTTPStatus.BAD_REQUEST,
    AgentError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The table: an error, or the nearest class above it, and its status."""

UNKNOWN: dict[type[AgentError], str] = {
    UnknownRun: "no run of yours has this id; perhaps it was deleted, or its time is over",
    UnknownSession: "no session of yours has this id; perhaps it was deleted, or its time is over",
}
"""One text for all of them, so that nobody learns which ids exist elsewhere."""


def problem_of(error: Exception) -> Problem:
    """Return what the caller is told about the error."""
    match error:
        case Refusal():
            return error.problem()
        case AgentError():
            return _problem_of_ours(error)
        case RequestValidationError():
            return invalid(error)
        case HTTPException():
            return _problem_of_route(error)
        case _ if _is_away(error):
            return _away("the server's store does not answer; try again later")
        case _:
            return _UNFORESEEN


def _problem_of_ours(error: AgentError) -> Problem:
    above = next(each for each in type(error).__mro__ if each in STATUSES)
    if isinstance(error, RedisAway):
        return _away(str(error))
    problem = Problem(STATUSES[above], error.code, UNKNOWN.get(above, str(error)))
    if isinstance(error, Busy):
        headers = _retry_after(error.retry_after)
        return replace(problem, is_retryable=True, headers=headers)
    return problem


def _is_away(error: Exception) -> bool:
    if isinstance(error, RedisError):
        return is_passing(error)
    return isinstance(error, TimeoutError | ConnectionError)


def _problem_of_route(error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    return Problem(status, status.name.lower(), status.description or status.phrase)


def invalid(error: RequestValidationError) -> Problem:
    """Return the problem of content that does not fit, field by field; no content is repeated."""
    faults = tuple(
        {"at": ".".join(str(part) for part in each["loc"])[:200], "why": str(each["msg"])[:500]}
        for each in error.errors()[:20]
    )
    detail = "; ".join(f"{each['at'] or 'the body'}: {each['why']}" for each in faults)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, InvalidInput.code, detail, errors=faults)


def _away(detail: str) -> Problem:
    headers = _retry_after(RETRY_AFTER)
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Problem(status, RedisAway.code, detail, is_retryable=True, headers=headers)


def _retry_after(wait: timedelta) -> dict[str, str]:
    return {"Retry-After": str(max(1, ceil(wait.total_seconds())))}


_UNFORESEEN = Problem(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal_error",
    "the server failed in a way that nobody foresaw; its log says how",
)


FORESEEN = (
    AgentError,
    RequestValidationError,
    HTTPException,
    RedisError,
    TimeoutError,
    ConnectionError,
)
"""What a route may raise."""


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a request whose route raised."""
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not problem.is_retryable:
        logger.error("! %s %s failed", request.method, request.url.path, exc_info=error)
    return problem.response()


def install(app: FastAPI) -> None:
    """Let every error of the app's routes be answered from the table."""
    for kind in (*FORESEEN, Exception):
        app.add_exception_handler(kind, answer_error)
