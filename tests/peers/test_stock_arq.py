import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from arq.connections import ArqRedis
from arq.constants import health_check_key_suffix
from arq.jobs import Job, JobStatus

from tests.peers.conftest import KEYS, Opener
from tests.processes import Place
from tests.waiting import wait_until
from worker.payloads import dumps, loads

pytestmark = [pytest.mark.peers, pytest.mark.timeout(120)]

SOON = timedelta(seconds=15)


def start_run(place: Place, agent: str) -> str:
    answer = httpx.post(f"{place.url}/v1/runs", json={"agent": agent, "input": "go"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def load_run(place: Place, run_id: str) -> Mapping[str, Any]:
    run: dict[str, Any] = httpx.get(f"{place.url}/v1/runs/{run_id}").json()
    return run


def job_of(arq: ArqRedis, run_id: str) -> Job:
    queue = KEYS.queue("runs").queue
    return Job(KEYS.run_job("default", run_id), arq, _queue_name=queue, _deserializer=loads)


async def until_status(place: Place, run_id: str, status: str) -> None:
    await wait_until(
        lambda: load_run(place, run_id)["status"] == status, within=SOON, for_=f"it to be {status}"
    )


async def test_arq_sees_a_run_that_waits_for_a_worker(opened: Opener, arq: ArqRedis) -> None:
    with opened() as place:
        run_id = start_run(place, "echo")

        job = job_of(arq, run_id)
        told = await job.info()

        assert await job.status() is JobStatus.queued
        assert [queued.job_id for queued in await arq.queued_jobs()] == [job.job_id]
        assert told is not None
        assert (told.function, told.args[1]) == ("drive_run", run_id)


async def test_a_job_that_arq_enqueues_is_picked_up(opened: Opener, arq: ArqRedis) -> None:
    with opened("runs") as place:
        first = start_run(place, "echo")
        await until_status(place, first, "completed")

        # The record is the truth, the job is a nudge: one too many changes nothing.
        job = await arq.enqueue_job(
            "drive_run", "default", first, "echo", _job_id="loopmill/default/x"
        )
        assert job is not None

        async def is_gone() -> bool:
            return await job.status() is JobStatus.not_found

        await wait_until(is_gone, within=SOON, for_="the job to be picked up and ended")
        assert load_run(place, first)["attempt"] == 1


async def test_arqs_abort_cancels_a_run(opened: Opener, arq: ArqRedis) -> None:
    with opened("runs") as place:
        run_id = start_run(place, "slow")
        await until_status(place, run_id, "running")
        job = job_of(arq, run_id)
        assert await job.status() is JobStatus.in_progress

        with pytest.raises(TimeoutError):
            await job.abort(timeout=0.5)  # it waits for a result, of which runs leave none

        await until_status(place, run_id, "cancelled")
        assert await job.status() is JobStatus.not_found


def arq_check(folder: Path, redis_url: str, queue: str) -> subprocess.CompletedProcess[str]:
    (folder / "checked.py").write_text(
        "from arq.connections import RedisSettings\n"
        "class Settings:\n"
        f"    redis_settings = RedisSettings.from_dsn({redis_url!r})\n"
        f"    queue_name = {queue!r}\n"
        "    functions = [print]\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "arq", "--check", "checked.Settings"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


async def test_arqs_check_sees_a_worker_and_its_absence(
    opened: Opener, arq: ArqRedis, redis_url: str, tmp_path: Path
) -> None:
    queue = KEYS.queue("tools").queue

    async def is_seen() -> bool:
        return await arq.exists(queue + health_check_key_suffix) == 1

    async def is_missed() -> bool:
        return not await is_seen()

    with opened("tools"):
        await wait_until(is_seen, within=SOON, for_="the worker to be seen")
        assert arq_check(tmp_path, redis_url, queue).returncode == 0

    await wait_until(is_missed, within=SOON, for_="the worker to be missed")
    assert arq_check(tmp_path, redis_url, queue).returncode == 1


def test_the_serialisers_are_all_that_arq_needs_of_us() -> None:
    job = {"t": None, "f": "drive_run", "a": ("default", "run_1", "echo"), "k": {}, "et": 1}

    assert loads(dumps(job))["a"] == ["default", "run_1", "echo"]
