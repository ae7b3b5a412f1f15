"""Redis stops, freezes, restarts: requests are told so in time, and readers miss nothing."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from redis.exceptions import ConnectionError as RedisConnectionError

from api.app import create_app
from api.desk import PROMPTLY
from loops.tasks import Owner
from tests.api.author import Author, begin, text
from tests.api.conftest import AGENTS, Live, client_of, served
from tests.api.raw import Raw
from tests.api.reading import read
from tests.api.test_border import routes
from tests.waiting import wait_until
from worker.embedded import Server, start_server
from worker.resources import Resources, open_resources
from worker.settings import Settings

SOON = timedelta(seconds=10)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A durable server of this test alone, which it may stop and start."""
    server = start_server(tmp_path / "server")
    yield server
    server.stop()


@pytest.fixture
def settings(own_server: Server) -> Settings:
    return Settings(redis_url=SecretStr(own_server.url), namespace="t")


@pytest.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    async with served(create_app(settings, app=AGENTS)) as live:
        yield live


@pytest.fixture
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    async with open_resources(settings) as resources:
        yield resources


@pytest.fixture
async def author(resources: Resources) -> Author:
    return await begin(resources)


ASKED = {"model": "agent/echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
BODIES = {
    "/v1/runs": {"agent": "echo", "input": "hi"},
    "/v1/sessions": {},
    "/v1/messages": ASKED,
    "/v1/chat/completions": ASKED,
}


NEEDS_NO_REDIS = {
    *("/healthz", "/v1/agents", "/v1/models", "/v1/models/{name}"),
    # It refuses agents, and there are no models here.
    "/v1/messages/count_tokens",
}


async def _overslept(seconds: float) -> float:
    """Return how much longer than asked a sleep took: the machine may be busy with other tests."""
    began = time.monotonic()
    await asyncio.sleep(seconds)
    return time.monotonic() - began - seconds


async def _ask(client: httpx.AsyncClient, method: str, path: str) -> None:
    content = BODIES.get(path) if method == "POST" else None
    began = time.monotonic()
    held_up = Owner().start(_overslept(PROMPTLY.total_seconds()), name="sleep")

    answer = await client.request(method, path, json=content)

    took = time.monotonic() - began
    assert took < 2 + await held_up, f"{method} {path}"
    assert answer.status_code == 503, f"{method} {path}"
    assert int(answer.headers["retry-after"]) >= 1
    # The gateway says it in the words of its callers.
    told = answer.json()
    assert told.get("retryable") is True or told["error"]["message"]


async def _ask_everything(live: Live, author: Author) -> None:
    """Every route says 503 within two seconds, with when to come back."""
    owner = Owner()
    async with client_of(live.app) as client:
        asked = [
            owner.start(_ask(client, method, path), name=path)
            for method, path in routes(author.run_id, author.session_id)
            if path not in NEEDS_NO_REDIS
        ]
        for each in asked:
            await each
        assert (await client.get("/healthz")).status_code == 200


async def test_every_route_is_503_in_time_when_redis_is_gone(
    live: Live, author: Author, own_server: Server
) -> None:
    own_server.kill()

    await _ask_everything(live, author)


async def test_every_route_is_503_in_time_when_redis_does_not_answer(
    live: Live, author: Author, own_server: Server
) -> None:
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        await _ask_everything(live, author)
    finally:
        os.kill(own_server.pid, signal.SIGCONT)


async def test_a_new_reader_is_503_in_time_and_an_old_one_stays(
    live: Live, author: Author, own_server: Server
) -> None:
    path, accept = f"/v1/runs/{author.run_id}/events", "Accept: text/event-stream"
    async with Raw(live.port, path, accept) as old:
        await old.piece()
        own_server.kill()

        async with Raw(live.port, path, accept) as new:
            assert new.status == 503
        assert len(live.office.hub.followers) == 1


async def test_readiness_turns_red_and_green_again(
    live: Live, author: Author, own_server: Server, tmp_path: Path
) -> None:
    await author.resources.runs.cancel("default", author.run_id)
    async with httpx.AsyncClient(base_url=live.url) as web:
        assert (await web.get("/readyz")).status_code == 200

        own_server.kill()
        assert (await web.get("/readyz")).status_code == 503

        restarted = _restart(own_server, tmp_path)
        await wait_until(lambda: _is_ready(web), SOON, "the API to be ready")
    restarted.stop()


async def _is_ready(web: httpx.AsyncClient) -> bool:
    return (await web.get("/readyz")).status_code == 200


def _restart(server: Server, tmp_path: Path) -> Server:
    """The same data on the same port."""
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    return start_server(tmp_path / "server", port=port)


async def test_readers_go_on_after_a_restart_and_miss_nothing(
    live: Live, author: Author, own_server: Server, tmp_path: Path
) -> None:
    owner, path = Owner(), f"/v1/runs/{author.run_id}/events"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        await raw.piece()
        await author.append(text("before"))
        await raw.piece()
        await author.resources.link.command("BGREWRITEAOF")
        await wait_until(lambda: _is_saved(author), SOON, "the log to be on disk")
        own_server.kill()
        restarted = _restart(own_server, tmp_path)
        await wait_until(lambda: _appended(author), SOON, "the author to reach the server")
        rest = owner.start(raw.rest(), name="reader")
        await author.settle()
        found = read(await rest).events
    restarted.stop()

    assert [position for _, _, position in found] == ["3", "4"]


async def _is_saved(author: Author) -> bool:
    persistence: bytes = await author.resources.link.command("INFO", "persistence")
    return b"aof_rewrite_in_progress:0" in persistence and b"aof_pending_bio_fsync:0" in persistence


async def _appended(author: Author) -> bool:
    try:
        await author.append(text("after"))
    except RedisConnectionError:
        return False
    return True


async def test_a_reader_whose_connection_to_redis_is_cut_misses_nothing(
    live: Live, author: Author, resources: Resources
) -> None:
    path = f"/v1/runs/{author.run_id}/events"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        body = await raw.piece()
        for _ in range(5):
            await resources.link.client.client_kill_filter(_type="pubsub")
            await author.append(text("a"))
            body += await raw.piece()
        await author.settle()
        body += await raw.rest()

    positions = [position for _, _, position in read(body).events]
    assert positions == [str(seq) for seq in range(1, 8)]


async def test_a_subscription_that_falls_silent_is_made_again(
    live: Live, author: Author, resources: Resources
) -> None:
    path = f"/v1/runs/{author.run_id}/events"
    async with Raw(live.port, path, "Accept: text/event-stream") as raw:
        await raw.piece()
        await wait_until(lambda: live.office.hub.is_connected)
        await resources.link.client.client_kill_filter(_type="pubsub")

        await wait_until(lambda: not live.office.hub.is_connected, SOON, "the loss to be seen")
        await wait_until(lambda: live.office.hub.is_connected, SOON, "a new connection")
