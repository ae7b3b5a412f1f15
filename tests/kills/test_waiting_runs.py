"""A thousand runs that wait for somebody: whatever dies, none is lost, and no worker holds one."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from loops.question import Answer
from tests.kills.conftest import KILLED
from tests.kills.harness import TENANT, Stage, stage_on
from tests.waiting import wait_until
from worker.embedded import start_server
from worker.hooks import HookRecord
from worker.run_record import RunStatus

RUNS = 1000
LATE = timedelta(seconds=150)

pytestmark = [pytest.mark.kills, pytest.mark.timeout(600)]


async def all_open(stage: Stage) -> list[HookRecord]:
    """Return all open hooks, page by page."""
    hooks: list[HookRecord] = []
    after: str | None = None
    while True:
        page = await stage.resources.hooks.page(TENANT, after=after, limit=200)
        hooks += page.hooks
        after = page.next
        if after is None:
            return hooks


async def counted(stage: Stage, run_ids: list[str], status: RunStatus) -> int:
    found = await stage.resources.link.all(
        ("HGET", stage.resources.keys.run(TENANT, run_id).record, "status") for run_id in run_ids
    )
    return found.count(status.encode())


async def all_are(stage: Stage, run_ids: list[str], status: RunStatus) -> None:
    async def are() -> bool:
        return await counted(stage, run_ids, status) == len(run_ids)

    await wait_until(are, within=LATE, for_=f"{len(run_ids)} runs to be {status}")


def resident(pid: int) -> float:
    """Return the memory that a process holds, in MB."""
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024


async def all_wait(stage: Stage) -> tuple[list[str], list[str]]:
    """Have a thousand runs wait, and end their workers; return who waits, and who not for long."""
    runs = [await stage.submit("waiting", f"{number}") for number in range(RUNS // 2)]
    hasty = [await stage.submit("waiting", "soon") for _ in range(RUNS // 2)]
    await all_are(stage, [*runs, *hasty], RunStatus.WAITING)
    for member in [*stage.runs, *stage.tools]:
        member.kill()
    return runs, hasty


async def answers(stage: Stage) -> bool:
    """Say whether the server does: the connection that it closed is made anew."""
    try:
        await stage.resources.link.command("PING")
    except RedisError:
        return False
    return True


async def answer(stage: Stage, run_ids: list[str]) -> None:
    for hook in await all_open(stage):
        if hook.run_id in run_ids:
            given = Answer("resolved", {"go": True})
            await stage.resources.hooks.close(TENANT, hook, given)


async def test_they_outlive_all_workers_and_the_server(tmp_path: Path) -> None:
    server = start_server(tmp_path / "server")
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    environment = {"LOOPMILL_PARK_AFTER": "100ms"}
    try:
        async with stage_on(server.url, tmp_path, app=KILLED, environment=environment) as stage:
            stage.man()
            idle = resident(stage.runs[0].pid)
            runs, hasty = await all_wait(stage)
            server.stop()
            server = start_server(tmp_path / "server", port=port)
            await wait_until(partial(answers, stage), for_="the server to be back")
            assert {hook.run_id for hook in await all_open(stage)} == {*runs, *hasty}

            stage.man()
            held = resident(stage.runs[0].pid) - idle
            await answer(stage, runs)
            await all_are(stage, [*runs, *hasty], RunStatus.COMPLETED)
            assert held < 5
            assert {(await stage.run(one)).output for one in hasty} == {"nobody came"}
    finally:
        server.stop()
