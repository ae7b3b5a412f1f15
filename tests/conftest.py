"""What tests of all floors share: a real server, links to it, and the check that nothing leaks."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
from fakeredis import FakeAsyncRedis, FakeRedis, FakeServer
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

import loops.model
from tests.effects import count_effects, effects_in
from tests.invariants import broken_invariants
from worker.embedded import Server, start_server
from worker.keys import Keys
from worker.link import Link, open_link

# The machine may be busy: how fast an example is made, or tried, is no fault of what it tries.
hypothesis_settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("busy")


# What is imported and collected here stays to the end: it is not looked through for garbage.
gc.disable()

LONG = ("end_to_end", "cli", "demo")
"""The folders whose files take long: begun first, none is left alone at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files; within these and within the others the order stays random."""
    items.sort(key=lambda item: item.path.parent.name not in LONG)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Ctrl-C reaches the processes that tests start, also where a shell put the tests in the back.

    Such a shell has SIGINT ignored, and whoever is started inherits that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's providers of models are its own."""
    monkeypatch.setattr(loops.model, "_factories", dict(loops.model._factories))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server, of this test process alone, that keeps nothing on disk."""
    server = start_server(tmp_path_factory.mktemp("server"), durable=False)
    yield server
    server.stop()


@pytest.fixture
def redis_url(server: Server, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty server; at the end all that stands in it must hold together."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield server.url
        assert broken_invariants(client, count_effects(effects_in(tmp_path))) == []
        client.flushall()


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[Link]:
    """A link to an empty real server; at the end no task may be left that nobody owns."""
    async with open_link(redis_url) as link:
        yield link
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == [], "tasks that nobody owns any more"


@pytest.fixture(params=["fake", "real"])
async def any_link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    """A link to an empty server; the suite runs on fakeredis, then on the real one."""
    if request.param == "real":
        async with open_link(request.getfixturevalue("redis_url")) as link:
            yield link
        return
    server = FakeServer()
    with FakeRedis(server=server) as blocking:
        async with (
            FakeAsyncRedis(server=server) as client,
            open_link(client, blocking=blocking) as link,
        ):
            yield link
        assert broken_invariants(blocking) == []


@pytest.fixture
def keys() -> Keys:
    """The names of a namespace."""
    return Keys("t")


@pytest.fixture
def shipped() -> Path:
    """The root of this checkout."""
    return Path(__file__).parents[1]
