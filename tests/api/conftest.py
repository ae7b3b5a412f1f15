"""The API in front of a real Redis: in this process, and as a server that can be reached."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp

import loops as ai
from api.app import Api, create_app
from api.desk import Office
from api.server import ApiServer, configured, listen
from loops.app import App
from loops.tasks import Owner
from tests.waiting import wait_until
from worker.resources import Resources, open_resources
from worker.settings import Settings


async def echo(context: ai.Context) -> AsyncGenerator[str]:
    yield "hello"


AGENTS = App({"echo": echo})


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """The settings of an API without keys."""
    return Settings(redis_url=SecretStr(redis_url), namespace="t")


@pytest.fixture
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    """The stores, for whoever plays the worker."""
    async with open_resources(settings) as resources:
        yield resources


@asynccontextmanager
async def lived(app: Api) -> AsyncGenerator[Api]:
    """An application between its start and its end."""
    async with app.server.router.lifespan_context(app.server):
        yield app


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[Api]:
    """An API without keys, alive."""
    async with lived(create_app(settings, app=AGENTS)) as app:
        yield app


@pytest.fixture
def office(app: Api) -> Office:
    """What the API's requests share."""
    return app.office


def client_of(app: Api, **headers: str) -> httpx.AsyncClient:
    """A client that calls the application without a network."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


async def asked(app: ASGIApp, path: str) -> httpx.Response:
    """The answer of an application that may fail while it gives it."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get(path)


@pytest.fixture
async def client(app: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API without keys."""
    async with client_of(app) as client:
        yield client


class Live:
    """A server in this process."""

    def __init__(self, server: ApiServer, app: Api, port: int, done: asyncio.Task[None]) -> None:
        self.server = server
        self.app = app
        self.port = port
        self.done = done

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def office(self) -> Office:
        return self.app.office

    async def stop(self) -> None:
        self.server.should_exit = True
        await self.done


@asynccontextmanager
async def served(app: Api) -> AsyncGenerator[Live]:
    """The application behind a real server on a free port."""
    owner = Owner()
    with listen("127.0.0.1", 0) as listener:
        server = ApiServer(configured(app))
        port = listener.getsockname()[1]
        done = owner.start(server.serve(sockets=[listener]), name="server")
        await wait_until(lambda: server.started, for_="the server to start")
        live = Live(server, app, port, done)
        try:
            yield live
        finally:
            await live.stop()


@pytest.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    """An API without keys behind a real server."""
    async with served(create_app(settings, app=AGENTS)) as live:
        yield live


@pytest.fixture
async def web(live: Live) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the real server."""
    async with httpx.AsyncClient(base_url=live.url, timeout=10) as client:
        yield client
