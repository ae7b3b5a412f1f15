"""Deploys and a server that is away: no attempt is consumed, nothing is lost, no process exits."""

import asyncio
import signal
from pathlib import Path

import pytest
import redis

from tests.effects import count_effects
from tests.end_to_end.conftest import KILLED, OpenStage
from tests.invariants import broken_invariants
from tests.kills.harness import Stage
from tests.kills.test_sweep import differences
from tests.waiting import wait_until
from worker.embedded import Server, start_server

pytestmark = pytest.mark.timeout(180)


async def test_a_run_is_handed_back_by_a_worker_that_shuts_down(open_stage: OpenStage) -> None:
    async with open_stage(app=KILLED, KILLS_PACE="10") as stage:
        stage.man()
        calm, _ = await stage.through("passing")
        run_id = await stage.submit("passing")
        owner = stage.owner(await stage.until(run_id, "text.delta"))
        assert owner is not None

        owner.signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            seen = await stage.watch(run_id, lambda _: None)

        outcome = await stage.outcome(run_id, seen)
        assert differences(outcome, calm) == []
        assert outcome.attempts == 1
        await wait_until(lambda: not owner.is_alive, for_="the worker to leave")
        assert owner.process.returncode == 0
        assert any(event.type == "run.resumed" for event in seen.events)


async def test_an_outage_of_20_s_costs_nothing(open_stage: OpenStage, tmp_path: Path) -> None:
    """The server is stopped in the middle of runs and started again on its own files."""
    server = start_server(tmp_path / "server", durable=True)
    port = int(server.url.split(":")[2].split("/")[0])
    try:
        async with open_stage(app=KILLED, url=server.url, KILLS_PACE="20") as stage:
            server, runs = await through_an_outage(stage, server, tmp_path / "server", port)

            records = [await stage.run(run_id) for run_id in runs]
            assert {record.status for record in records} == {"completed"}
            assert {record.attempt for record in records} == {1}
            assert all(member.is_alive for member in stage.fleet.members)
            with redis.Redis.from_url(server.url) as client:
                assert broken_invariants(client, count_effects(stage.effects)) == []
    finally:
        server.stop()


async def through_an_outage(
    stage: Stage, server: Server, folder: Path, port: int
) -> tuple[Server, list[str]]:
    stage.man()
    runs = [await stage.submit("passing") for _ in range(12)]
    await stage.until(runs[0], "text.delta")
    server.stop()
    await asyncio.sleep(20)  # the outage itself: there is nothing to wait for
    server = start_server(folder, port=port, durable=True)
    async with asyncio.timeout(60):
        for run_id in runs:
            await stage.watch(run_id, lambda _: None)
    return server, runs
