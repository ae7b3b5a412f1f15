"""API, workers and server as processes: what a client sees while things are killed."""

import asyncio
import json
import socket
import time
from pathlib import Path

import httpx
import pytest

from api.sse import Reader
from tests.end_to_end.conftest import KILLED, OpenStage
from tests.kills.harness import LEASE, TENANT, Stage
from tests.waiting import wait_until
from worker.embedded import start_server

pytestmark = pytest.mark.timeout(120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def open_api(stage: Stage) -> str:
    """Start an API process, and return its address."""
    port = free_port()
    stage.fleet.wait(stage.fleet.start("api", "api", "--port", str(port)))
    return f"http://127.0.0.1:{port}"


async def follow(address: str, run_id: str) -> list[dict[str, object]]:
    """Follow a run over SSE to its end, on one connection."""
    reader, seen = Reader(), list[dict[str, object]]()
    headers = {"Accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("GET", f"{address}/v1/runs/{run_id}/events", headers=headers) as response,
    ):
        assert response.status_code == 200
        async for chunk in response.aiter_bytes():
            seen += [json.loads(event.data) for event in reader.feed(chunk)]
    return seen


async def test_a_subscriber_that_stays_sees_each_event_once_through_a_kill(
    open_stage: OpenStage,
) -> None:
    async with open_stage(app=KILLED, **LEASE) as stage:
        stage.man()
        address = open_api(stage)
        run_id = await stage.submit("injecting")
        strike = stage.striker(None, lambda events: events[-1].type == "tool.started")

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(stage.watch(run_id, strike))
            following = group.create_task(follow(address, run_id))

        seen = following.result()
        log = await stage.resources.log.read(stage.resources.keys.run(TENANT, run_id))
        assert [frame["seq"] for frame in seen] == list(range(1, len(log) + 1))
        assert [frame["data"] for frame in seen] == [event.data for event in log]
        assert watching.result().events[-1].attempt == 2


async def test_the_api_says_that_the_server_is_away_and_comes_back(
    open_stage: OpenStage, tmp_path: Path
) -> None:
    """503 with Retry-After within two seconds, readyz red within five; then all is well."""
    server = start_server(tmp_path / "server", durable=True)
    port = int(server.url.split(":")[2].split("/")[0])
    async with open_stage(url=server.url) as stage, httpx.AsyncClient(timeout=10) as client:
        stage.man()
        address = open_api(stage)
        server.stop()

        began = time.monotonic()
        refused = await client.post(f"{address}/v1/runs", json={"agent": "story", "input": "3"})
        took = time.monotonic() - began
        await wait_until(lambda: is_red(client, address), for_="readyz to turn red")
        server = start_server(tmp_path / "server", port=port, durable=True)
        await wait_until(lambda: is_green(client, address), for_="readyz to turn green")
        taken = await client.post(f"{address}/v1/runs", json={"agent": "story", "input": "3"})
        await stage.until(taken.json()["id"])

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert took < 2
    server.stop()


async def is_red(client: httpx.AsyncClient, address: str) -> bool:
    return (await client.get(f"{address}/readyz")).status_code == 503


async def is_green(client: httpx.AsyncClient, address: str) -> bool:
    return (await client.get(f"{address}/readyz")).status_code == 200
