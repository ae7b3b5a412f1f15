"""Serving the API: a uvicorn that ends its open streams first, so that it can stop."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import uvicorn

from loops.errors import SetupError
from worker.configuration import configured as configured_models
from worker.event_loop import look_rarely
from worker.gateway_callbacks import gateway_callbacks
from worker.settings import Settings

from .app import Api, configured_app, create_app
from .auth import is_loopback
from .heads import BoundedProtocol
from .watch import Watch

READER_LEFT = timedelta(seconds=60)
"""After how long without a sign of life the kernel closes a reader's connection."""

STOP = timedelta(seconds=2)
"""How long requests may take to end once the server stops."""

STARTED, NOT_STARTED = 0, 3
"""Exit codes."""


class ApiServer(uvicorn.Server):
    """A server that sends whoever follows a run elsewhere before it stops."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so in one line."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            sys.stdout.write(f"loopmill api ready: http://{shown}:{port}\n")
            sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: streams end, requests are answered, then everything is closed."""
        app = self.config.app
        if isinstance(app, Api):
            app.drain()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGTERM and SIGINT, and take them as dealt with: the process ends with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        stops = (signal.SIGTERM, signal.SIGINT)
        before = {each: signal.signal(each, self.handle_exit) for each in stops}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def serve_api(settings: Settings, *, host: str, port: int) -> int:
    """Serve until told to stop, and return the process' exit code; port 0 takes a free one.

    Raises:
        SetupError: When the address is not this machine's alone and there are no API keys, the
            agents cannot be found, or a callback would never run.
        SettingsError: When the configuration file cannot be used.
        OSError: When the address cannot be had.
    """
    check_address(settings, host)
    with configured_models(settings, os.environ) as configuration:
        agents = configured_app(settings)
        told = configuration.gateway(settings.config)
        watch = Watch(told, gateway_callbacks(agents, told))
        app = create_app(settings, app=agents, watch=watch)
        look_rarely()
        with listen(host, port) as listener:
            server = ApiServer(configured(app))
            server.run(sockets=[listener])
    return STARTED if server.started else NOT_STARTED


def check_address(settings: Settings, host: str) -> None:
    """Refuse to serve strangers without keys.

    Raises:
        SetupError: When the host is not this machine's alone, and no key is configured.
    """
    if not settings.api_keys and not is_loopback(host):
        raise SetupError(
            f"without API keys only this machine is served, and {host!r} is more than that; "
            "set LOOPMILL_API_KEYS, or serve 127.0.0.1"
        )


def configured(app: Api) -> uvicorn.Config:
    """Return how the application is served. Addresses are not logged: tickets stand in them."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=int(STOP.total_seconds()),
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections whose reader vanished do not stay for ever.

    It names its protocol: asyncio lets small writes go out at once (TCP_NODELAY) on such sockets
    alone, and without it each answer waits some 40 ms for the reader's delayed acknowledgement.

    Raises:
        OSError: When the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        limit = READER_LEFT // timedelta(milliseconds=1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
