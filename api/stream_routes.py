"""Routes that may stay open for long, answered before the framework's own.

What an idle reader costs is mostly the calls that wait for each other below its response; here
there are few.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import FORESEEN, Refusal, answer_error

Answer = Callable[[Request], Awaitable[Response]]
Refuser = Callable[[Request, Exception], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """What answers the requests for a path."""

    method: str
    answer: Answer
    refuses: Refuser = answer_error
    """Answers a request that is turned away, in the words of its protocol."""


class StreamRoutes:
    """Answers requests for some paths, and passes the others on to the framework."""

    def __init__(self, app: FastAPI, routes: Mapping[str, Route]) -> None:
        self._app = app
        self._routes = [(re.compile(path), route) for path, route in routes.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        route = self._matched(scope) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        try:
            if scope["method"] != route.method:
                raise _not_allowed(scope["method"], route.method)
            response = await route.answer(Request(scope, receive))
            await response(scope, receive, send)
        except FORESEEN as error:
            response = await route.refuses(Request(scope), error)
            await response(scope, receive, send)

    def _matched(self, scope: Scope) -> Route | None:
        for path, route in self._routes:
            found = path.fullmatch(scope["path"])
            if found is not None:
                scope.update(app=self._app, path_params=found.groupdict())
                return route
        return None


def _not_allowed(method: str, allowed: str) -> Refusal:
    message = f"this path takes {allowed}, not {method}"
    status = HTTPStatus.METHOD_NOT_ALLOWED
    return Refusal(status, "method_not_allowed", message, headers={"Allow": allowed})
