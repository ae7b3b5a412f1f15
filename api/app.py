"""The HTTP application: routes, the border before them, and what lives as long as the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from loops.app import App
from loops.find import find_app
from worker.resources import Resources, open_resources
from worker.settings import Settings

from . import errors, events, gateway, health, hooks, looking, model_list, runs, sessions
from .auth import Keyring, keyring_of
from .border import Border
from .desk import Office
from .hub import Hub
from .methods import refuse_method
from .openapi import DescribedServer
from .stream_routes import Route, StreamRoutes
from .watch import Watch
from .wording import CHAT, MESSAGES, refuse_in_words

Opener = Callable[[Settings], AbstractAsyncContextManager[Resources]]

ROUTERS = (
    runs.router,
    hooks.router,
    sessions.router,
    looking.router,
    model_list.router,
    health.router,
)

STREAMS: dict[str, Route] = {
    "/v1/runs/(?P<run_id>[^/]+)/events": Route("GET", events.read_events),
    "/v1/sessions/(?P<session_id>[^/]+)/events": Route("GET", sessions.read_session_events),
    MESSAGES: Route("POST", gateway.answer_messages, refuse_in_words),
    f"{MESSAGES}/count_tokens": Route("POST", gateway.count_tokens, refuse_in_words),
    CHAT: Route("POST", gateway.answer_chat, refuse_in_words),
}

HEADERS = [
    "Anthropic-Beta",
    "Anthropic-Version",
    "Authorization",
    "Cache-Control",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "X-Api-Key",
    "X-Loopmill-Streaming",
    "X-Request-ID",
]
"""What pages of configured origins may send."""


class Api:
    """The application as a server runs it: the border, the streams, then all other routes."""

    def __init__(self, server: FastAPI, settings: Settings, keyring: Keyring) -> None:
        self.server = server
        """The framework's part, which also holds what lives as long as the process."""

        origins = list(settings.cors_origins)
        border = Border(StreamRoutes(server, STREAMS), keyring=keyring, origins=origins)
        self._front: ASGIApp = border
        if origins:
            self._front = CORSMiddleware(
                border,
                allow_origins=origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=HEADERS,
                expose_headers=["Location", "Retry-After", "X-Request-ID"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._front(scope, receive, send)

    @property
    def office(self) -> Office:
        """What all requests share, while the application lives."""
        office: Office = self.server.state.office
        return office

    def drain(self) -> None:
        """End all streams, and let nobody follow any more: the server is about to stop."""
        self.office.hub.close()


def create_app(
    settings: Settings,
    *,
    app: App | None = None,
    opener: Opener = open_resources,
    watch: Watch | None = None,
) -> Api:
    """Return the application. Its agents are those of `app`, else of the configured path.

    Args:
        settings: What the process was told.
        app: The agents.
        opener: Opens the stores.
        watch: The gateway's settings and callbacks.

    Raises:
        SetupError: When the configured agents cannot be found.
    """
    keyring = keyring_of(settings)
    agents = app if app is not None else configured_app(settings)
    watching = Watch() if watch is None else watch

    @asynccontextmanager
    async def live(server: FastAPI) -> AsyncGenerator[None]:
        async with (
            opener(settings) as resources,
            Hub(resources.log, resources.link.client) as hub,
        ):
            server.state.office = Office(resources, hub, agents, keyring, watching)
            yield

    return Api(_server(live), settings, keyring)


def _server(live: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """Return the framework's application, with all of its routes."""
    server = DescribedServer(
        title="Loopmill",
        lifespan=live,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        server.include_router(router)
    errors.install(server)
    routes = [*server.routes, *(route for router in ROUTERS for route in router.routes)]
    server.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, refuse_method(routes))
    return server


def configured_app(settings: Settings) -> App:
    """Return the app that the settings name, an empty one when they name none.

    Raises:
        SetupError: When there is no such app.
    """
    return App() if settings.app is None else find_app(settings.app)
