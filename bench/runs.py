"""Whole runs: `python -m bench.runs`.

The work is a run of three turns that call ten tools each, side by side, and a last word, by a model
that answers at once: all time is the system's.

* overhead: one run at a time on one worker for runs and one for tools, from its acceptance to its
  end, less the same loop in one process.
* concurrent: many of them at once.
* scaling: runs whose model takes its time, on 1, 2 and 4 run workers with few slots each.
* beside: the same work over HTTP, ours and LangGraph's development server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worker.new_run import NewRun
from worker.resources import Resources, open_resources

from .agents import app
from .deployment import TENANT, Deployment
from .following import finished
from .measuring import arguments, keep, machine, medians, run, show, spread
from .probe import Probe, open_server
from .processes import Processes
from .runs_over_http import beside

TOOLS, TURNS = 10, 3
SLOTS = 10
THINKS = 0.25
"""Seconds that the model takes for a turn, where runs are to wait for it."""
WAVES = 8
"""How many times over the slots of all workers are filled, where workers are counted."""


async def start(resources: Resources, agent: str, text: str) -> str:
    """Start a run and return its id."""
    made = await resources.runs.create(TENANT, NewRun(agent, [{"role": "user", "content": text}]))
    return made.run_id


async def span(resources: Resources, run_id: str) -> tuple[float, float]:
    """Return when a run was accepted and when it ended, by the server's clock."""
    record = await finished(resources, TENANT, run_id)
    if record.finished_at is None:
        raise SystemExit(f"run {run_id} ended at no time")
    return record.created_at.timestamp(), record.finished_at.timestamp()


async def one(resources: Resources, agent: str, text: str) -> tuple[float, float]:
    """Start a run, and return when it was accepted and when it ended."""
    return await span(resources, await start(resources, agent, text))


async def in_process(count: int) -> list[float]:
    """Return how long the same loop takes in one process, in ms."""
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await app.run("three_turns", str(TOOLS))
        took.append((time.perf_counter() - began) * 1000)
    return took


async def overhead(deployment: Deployment, count: int) -> dict[str, Any]:
    """Measure single runs on idle workers, beside the same loop in this process."""
    alone = await in_process(count + 3)
    async with open_resources(deployment.read_settings()) as resources:
        spans = [await one(resources, "three_turns", str(TOOLS)) for _ in range(count + 3)]
    queued = spread([(end - began) * 1000 for began, end in spans[3:]])
    local = spread(alone[3:])
    return {
        "tool_calls": TOOLS * TURNS,
        "on_workers_ms": queued,
        "in_process_ms": local,
        "overhead_ms": round(queued["p50"] - local["p50"], 3),
    }


async def at_once(
    deployment: Deployment, agent: str, text: str, count: int
) -> tuple[float, list[float]]:
    """Start many runs at once; return the seconds for all, and for each."""
    async with open_resources(deployment.read_settings()) as resources:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(start(resources, agent, text)) for _ in range(count)]
        # One after the other, so that hundreds of eyes on hundreds of records cost nothing.
        spans = [await span(resources, task.result()) for task in tasks]
    took = max(end for _, end in spans) - min(start for start, _ in spans)
    return took, [end - start for start, end in spans]


async def concurrent(deployment: Deployment, count: int) -> dict[str, Any]:
    """Measure many runs at once."""
    took, each = await at_once(deployment, "three_turns", str(TOOLS), count)
    return {
        "runs": count,
        "tool_calls_each": TOOLS * TURNS,
        "seconds": round(took, 2),
        "runs_per_second": round(count / took, 1),
        "tool_jobs_per_second": round(count * TOOLS * TURNS / took),
        "run_s": spread(each),
    }


def scaling(url: str, notes: Path, workers: int, waves: int) -> dict[str, Any]:
    """Measure runs that wait for their model, on some run workers with few slots each."""
    Probe(url).client.flushall()
    count = workers * SLOTS * waves
    with Processes(notes) as processes:
        deployment = Deployment(url, processes)
        deployment.workers("tools", 50)
        deployment.workers("runs", SLOTS, workers)
        took, _ = run(at_once(deployment, "slow", str(THINKS), count))
    return {
        "workers": workers,
        "slots_each": SLOTS,
        "model_seconds": 2 * THINKS,
        "runs": count,
        "runs_per_second": round(count / took, 1),
        "share_of_possible": round(count / took / (workers * SLOTS / (2 * THINKS)), 3),
    }


def one_round(url: str, notes: Path, *, quick: bool) -> dict[str, Any]:
    """Measure everything once."""
    found: dict[str, Any] = {}
    with Processes(notes) as processes:
        deployment = Deployment(url, processes)
        deployment.workers("runs", 50)
        deployment.workers("tools", 50)
        found["overhead"] = run(overhead(deployment, 10 if quick else 60))
    with Processes(notes) as processes:
        deployment = Deployment(url, processes)
        deployment.workers("runs", 50, 2)
        deployment.workers("tools", 50, 2)
        found["concurrent"] = run(concurrent(deployment, 20 if quick else 200))
    for workers in (1, 2, 4):
        found[f"scaling_{workers}"] = scaling(url, notes, workers, 3 if quick else WAVES)
    for workers in (2, 4):
        several, single = found[f"scaling_{workers}"], found["scaling_1"]
        several["to_one"] = round(several["runs_per_second"] / single["runs_per_second"], 2)
    Probe(url).client.flushall()
    found["beside"] = beside(url, notes, TOOLS, quick=quick)
    return found


def report(figures: dict[str, Any]) -> None:
    """Print the figures."""
    whole = figures["overhead"]
    show(
        f"one run of {whole['tool_calls']} tool calls (ms)",
        [
            ["", "p50", "p99"],
            ["on workers", whole["on_workers_ms"]["p50"], whole["on_workers_ms"]["p99"]],
            ["in process", whole["in_process_ms"]["p50"], whole["in_process_ms"]["p99"]],
            ["overhead", whole["overhead_ms"], ""],
        ],
    )
    many = figures["concurrent"]
    head = ["runs", "seconds", "runs/s", "tool jobs/s", "p50 s", "p99 s"]
    row = [many["runs"], many["seconds"], many["runs_per_second"], many["tool_jobs_per_second"]]
    show("many at once", [head, [*row, many["run_s"]["p50"], many["run_s"]["p99"]]])
    scaled = [figures[f"scaling_{workers}"] for workers in (1, 2, 4)]
    rows: list[Sequence[Any]] = [
        [each["workers"], each["runs_per_second"], each.get("to_one", 1), each["share_of_possible"]]
        for each in scaled
    ]
    show("run workers", [["workers", "runs/s", "to one", "of possible"], *rows])
    names = ("version", "idle_p50_ms", "idle_p99_ms", "runs_per_second", "error")
    both = [[name, *map(each.get, names)] for name, each in figures["beside"].items()]
    show("the same work over HTTP", [["", "version", "p50 ms", "p99 ms", "runs/s", ""], *both])


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("runs")
    with open_server(durable=True) as (url, notes):
        server = Probe(url).version()
        rounds = []
        for number in range(1, given.rounds + 1):
            print(f"round {number} of {given.rounds}", flush=True)
            rounds.append(one_round(url, notes, quick=given.quick))
    figures = {**machine(), "server": f"{server}, appendfsync everysec", "rounds": given.rounds}
    figures |= medians(rounds)
    report(figures)
    keep("runs", figures, quick=given.quick)


if __name__ == "__main__":
    main()
