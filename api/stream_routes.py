"""Routes that may stay open for long, answered before the framework's own.

What an idle reader costs is mostly the calls that wait for each other below its response; here
there are few.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import FORESEEN, Refusal, answer_error

Answer = Callable[[Request], Awaitable[Response]]


class StreamRoutes:
    """Answers GET requests for some paths, and passes the others on to the framework."""

    def __init__(self, app: FastAPI, routes: Mapping[str, Answer]) -> None:
        self._app = app
        self._routes = [(re.compile(path), answer) for path, answer in routes.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        answer = self._matched(scope) if scope["type"] == "http" else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await answer(Request(scope, receive))
            await response(scope, receive, send)
        except FORESEEN as error:
            response = await answer_error(Request(scope), error)
            await response(scope, receive, send)

    def _matched(self, scope: Scope) -> Answer | None:
        for path, answer in self._routes:
            found = path.fullmatch(scope["path"])
            if found is not None:
                scope.update(app=self._app, path_params=found.groupdict())
                return answer if scope["method"] == "GET" else _not_allowed
        return None


async def _not_allowed(request: Request) -> Response:
    message = f"events are only read: GET, not {request.method}"
    headers = {"Allow": "GET"}
    status = HTTPStatus.METHOD_NOT_ALLOWED
    raise Refusal(status, "method_not_allowed", message, headers=headers)
