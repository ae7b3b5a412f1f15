"""Refusals in the words of a path's protocol: problem JSON, or a provider's own errors."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

import orjson
from starlette.requests import Request
from starlette.responses import Response

from loops.gateway.failing import Failure
from loops.gateway.rounds import Surface

from .errors import Problem, answer_error, problem_of

MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
MODELS = "/v1/models"


def surface_of(request: Request) -> Surface | None:
    """Return the protocol that a request's path speaks, None where it is our own.

    The list of models speaks both: Anthropic's to whoever names a version of it.
    """
    path = request.url.path
    if path.startswith(MESSAGES):
        return Surface.MESSAGES
    if path == MODELS and "anthropic-version" in request.headers:
        return Surface.MESSAGES
    return Surface.CHAT if path in {CHAT, MODELS} else None


def in_words_of(request: Request, problem: Problem) -> Response:
    """Return the answer that tells a problem in the words of the request's path."""
    surface = surface_of(request)
    if surface is None:
        return problem.response()
    failure = Failure(problem.status.value, problem.detail, code=problem.code)
    return failed(surface, failure, headers=dict(problem.headers))


async def refuse_in_words(request: Request, error: Exception) -> Response:
    """Answer a request whose route raised."""
    problem = problem_of(error)
    if problem.status >= 500 and not problem.is_retryable:
        # It is logged as elsewhere.
        await answer_error(request, error)
    return in_words_of(request, problem)


def failed(
    surface: Surface, failure: Failure, *, run_id: str = "", headers: dict[str, str] | None = None
) -> Response:
    """Return the answer to a request that has failed."""
    told = dict(headers or {})
    if run_id:
        told["x-request-id"] = run_id
    after = failure.retry_after
    if after is not None:
        told["retry-after"] = str(max(1, ceil(after / timedelta(seconds=1))))
    body = orjson.dumps(failure.body(surface, run_id))
    return Response(body, failure.status, told, media_type="application/json")
