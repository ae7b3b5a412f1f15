"""Whole runs: many at once over real processes. `python -m bench.runs` writes results/runs.json."""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fleet import Fleet
from worker.embedded import start_server
from worker.new_run import NewRun
from worker.resources import Resources, open_resources
from worker.run_record import RunStatus
from worker.settings import Settings

RESULTS = Path(__file__).parent / "results" / "runs.json"
APP = "tests.end_to_end.agents:app"
TENANT = "default"
RUNS, TOOLS = 200, 5


async def finish(resources: Resources, width: int) -> float:
    """Start a run of three turns, wait for its end, and return the seconds that it took."""
    began = time.perf_counter()
    message = {"role": "user", "content": str(width)}
    created = await resources.runs.create(TENANT, NewRun("three_turns", [message]))
    while not (run := await resources.runs.load(TENANT, created.run_id)).is_settled:
        await asyncio.sleep(0.02)
    if run.status is not RunStatus.COMPLETED:
        raise SystemExit(f"{run.id} is {run.status}: {run.error}")
    return time.perf_counter() - began


async def concurrent() -> dict[str, Any]:
    """Measure 200 runs at once, of three turns with five parallel tools each, on 2 + 2 workers."""
    with tempfile.TemporaryDirectory() as folder:
        effects = Path(folder) / "effects"
        effects.touch()
        server = start_server(Path(folder) / "server", durable=True)
        fleet = Fleet(server.url, app=APP, environment={"KILLS_EFFECTS": str(effects)})
        try:
            for queue in ("runs", "runs", "tools", "tools"):
                fleet.worker(queue, "--concurrency", "50")
            settings = Settings.from_env({"LOOPMILL_REDIS_URL": server.url})
            async with open_resources(settings) as resources:
                began = time.perf_counter()
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(finish(resources, TOOLS)) for _ in range(RUNS)]
                took = time.perf_counter() - began
        finally:
            fleet.close()
            server.stop()
    seconds = sorted(task.result() for task in tasks)
    return {
        "runs": RUNS,
        "tools_each": 2 * TOOLS,
        "seconds": round(took, 2),
        "runs_per_second": round(RUNS / took, 1),
        "tool_jobs_per_second": round(RUNS * 2 * TOOLS / took),
        "run_p50_s": round(statistics.median(seconds), 2),
        "run_p99_s": round(seconds[int(len(seconds) * 0.99) - 1], 2),
    }


def main() -> None:
    """Measure, print and keep the figures."""
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, 2 cores",
        "concurrent": asyncio.run(concurrent()),
    }
    print(json.dumps(figures, indent=2))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
