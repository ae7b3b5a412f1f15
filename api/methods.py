"""Methods that a path does not have: the answer names those that it has."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ExceptionHandler

from .errors import Refusal


def refuse_method(routes: Iterable[BaseRoute]) -> ExceptionHandler:
    """Return what answers a request whose path has other methods, by all of the routes."""
    known = [route for route in routes if isinstance(route, Route)]

    async def refuse(request: Request, _: Exception) -> Response:
        allowed = {
            method
            for route in known
            if route.matches(request.scope)[0] is not Match.NONE
            for method in route.methods or ()
        }
        names = ", ".join(sorted(allowed))
        return (
            Refusal(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method_not_allowed",
                f"the path takes {names}, not {request.method[:20]}",
                headers={"Allow": names},
            )
            .problem()
            .response()
        )

    return refuse
