"""Following runs: `python -m bench.streams`.

One API and one worker as they ship; all readers are in a process of their own. What is timed is
from a loop's yield, over the worker's flush, the log, the hub and the socket, to the bytes at the
reader.

* many runs / one run: a thousand readers, each on a run of its own, or all on the same.
* idle: what a reader costs that hears nothing.
* deltas: a hundred models that stream, and the text that arrives.
* stalled: readers of a loud run, without and with one among them that does not read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from worker.new_run import NewRun
from worker.resources import open_resources
from worker.run_record import RunRecord

from .agents import story
from .deployment import TENANT, Deployment
from .measuring import (
    arguments,
    cpu_seconds,
    keep,
    machine,
    medians,
    memory_bytes,
    run,
    show,
    spread,
)
from .probe import Probe, open_server
from .processes import BenchError, Processes, Running

WARM_UP = 3.0
"""Seconds of events that do not count: runs begin all at once, which they do not in life."""
LOUD_BYTES, LOUD_EVERY = 40_000, 0.04
TOGETHER = 10
"""How many deltas a model's piece holds."""


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    readers: int = 1000
    seconds: float = 10.0
    events_per_second: float = 500.0
    """On many runs, in all."""
    events_of_one: float = 5.0
    """On one run, which all read."""
    models: int = 100
    deltas_per_second: float = 25_000.0
    """What the models offer, in all."""
    loud_seconds: float = 12.0


QUICK = Amounts(50, 2.0, 100.0, 5.0, 10, 2500.0, 3.0)


@dataclass(frozen=True)
class Stage:
    """An API, the readers' process, and the way to runs."""

    deployment: Deployment
    api: Running
    crowd: Running
    probe: Probe

    def create(self, agent: str, runs: int, **asked: Any) -> list[str]:
        """Accept runs, and return their ids."""
        return run(self._create(agent, runs, asked))

    async def _create(self, agent: str, runs: int, asked: dict[str, Any]) -> list[str]:
        message = {"role": "user", "content": orjson.dumps(asked).decode()}
        async with open_resources(self.deployment.read_settings()) as resources:
            new = NewRun(agent, [message])
            return [(await resources.runs.create(TENANT, new)).run_id for _ in range(runs)]

    def load(self, run_ids: list[str]) -> list[RunRecord]:
        """Return the records of runs."""
        return run(self._load(run_ids))

    async def _load(self, run_ids: list[str]) -> list[RunRecord]:
        async with open_resources(self.deployment.read_settings()) as resources:
            return [await resources.runs.load(TENANT, run_id) for run_id in run_ids]

    def read(self, run_ids: list[str], *, after: int = 0, silent: bool = False) -> None:
        """Open a reader for each id."""
        paths = [f"/v1/runs/{run_id}/events?after={after}" for run_id in run_ids]
        told = self.crowd.ask("open", paths=paths, silent=silent)
        if told["open"] != len(paths):
            raise BenchError(f"{told['open']} of {len(paths)} readers were let in: {told}")

    def times(self, seconds: float) -> dict[str, float]:
        """Let events come for a while, and return how late they were."""
        time.sleep(seconds)
        late = self.crowd.ask("times")["ms"]
        if not late:
            raise BenchError(f"no event reached any reader: {self.api.told()}")
        return spread(late)


@contextmanager
def open_stage(url: str, notes: Path) -> Generator[Stage]:
    """Start an API and the readers' process, on an empty server."""
    probe = Probe(url)
    probe.client.flushall()
    with Processes(notes) as processes:
        deployment = Deployment(url, processes)
        api, port = deployment.api()
        command = [sys.executable, "-m", "bench.readers", str(port)]
        crowd = processes.start("readers", command, {})
        crowd.wait_for("ready")
        yield Stage(deployment, api, crowd, probe)


def late(stage: Stage, workers: list[Running], seconds: float) -> dict[str, Any]:
    """Measure how late events are, and what they cost API and worker."""
    stage.times(WARM_UP)
    members = {"api": [stage.api.pid], "worker": [each.pid for each in workers]}
    before = {name: cpu_seconds(pids) for name, pids in members.items()}
    found: dict[str, Any] = {"late_ms": stage.times(seconds)}
    for name, pids in members.items():
        found[f"{name}_cpu_percent"] = round((cpu_seconds(pids) - before[name]) / seconds * 100, 1)
    found["reads_per_second"] = round(found["late_ms"]["count"] / seconds)
    return found


def seated(stage: Stage, run_ids: list[str]) -> dict[str, Any]:
    """Open readers, and return what each costs while nothing comes."""
    warm = run_ids[:5]
    stage.read(warm)
    stage.crowd.ask("close")
    time.sleep(1.5)
    memory, connections = memory_bytes(stage.api.pid), stage.probe.connections()
    stage.read(run_ids)
    time.sleep(1.5)
    return {
        "readers": len(run_ids),
        "bytes_each": round((memory_bytes(stage.api.pid) - memory) / len(run_ids)),
        "redis_connections": stage.probe.connections() - connections,
    }


def on_many_runs(url: str, notes: Path, amounts: Amounts) -> dict[str, Any]:
    """A reader each on many runs; the runs begin when all readers are there."""
    every = amounts.readers / amounts.events_per_second
    with open_stage(url, notes) as stage:
        count = int((amounts.seconds + WARM_UP + 10) / every) + 1
        run_ids = stage.create("ticker", amounts.readers, every=every, count=count)
        idle = seated(stage, run_ids)
        workers = stage.deployment.workers("runs", amounts.readers)
        return {"idle": idle, **late(stage, workers, amounts.seconds)}


def on_one_run(url: str, notes: Path, amounts: Amounts) -> dict[str, Any]:
    """All readers on one run."""
    every = 1 / amounts.events_of_one
    with open_stage(url, notes) as stage:
        count = int((amounts.seconds + WARM_UP + 10) / every) + 1
        run_ids = stage.create("ticker", 1, every=every, count=count)
        idle = seated(stage, run_ids * amounts.readers)
        workers = stage.deployment.workers("runs", 10)
        return {"idle": idle, **late(stage, workers, amounts.seconds)}


def deltas(url: str, notes: Path, amounts: Amounts) -> dict[str, Any]:
    """Models stream as fast as they may, one worker and one API pass all of it on."""
    each = amounts.deltas_per_second / amounts.models
    words = int(each * amounts.seconds)
    with open_stage(url, notes) as stage:
        asked = {"words": words, "together": TOGETHER, "every": TOGETHER / each}
        run_ids = stage.create("streaming", amounts.models, **asked)
        stage.read(run_ids)
        workers = stage.deployment.workers("runs", amounts.models)
        pids = {"worker": workers[0].pid, "api": stage.api.pid}
        before = {name: cpu_seconds([pid]) for name, pid in pids.items()}
        ended = stage.crowd.ask("finish", limit=amounts.seconds * 6 + 20)["ended"]
        texts = stage.crowd.ask("texts")["texts"]
        spent = {name: cpu_seconds([pid]) - before[name] for name, pid in pids.items()}
        records = stage.load(run_ids)
    began = min(each.started_at.timestamp() for each in records if each.started_at)
    took = max(each.finished_at.timestamp() for each in records if each.finished_at) - began
    whole = sum(text == story(words) for text in texts)
    if set(ended) != {"completed"} or whole != amounts.models:
        raise BenchError(f"{whole} of {amounts.models} texts arrived whole; runs: {set(ended)}")
    return {
        "models": amounts.models,
        "deltas": words * amounts.models,
        "offered_per_second": amounts.deltas_per_second,
        "taken_per_second": round(words * amounts.models / took),
        "whole_texts": whole,
        **{
            f"{name}_cpu_us": round(cpu / words / amounts.models * 1e6, 1)
            for name, cpu in spent.items()
        },
    }


def stalled(url: str, notes: Path, amounts: Amounts) -> dict[str, Any]:
    """Readers of a loud run, without and with one that takes nothing."""
    seconds = amounts.loud_seconds
    with open_stage(url, notes) as stage:
        count = int((3 * seconds + WARM_UP + 10) / LOUD_EVERY)
        run_ids = stage.create("ticker", 1, every=LOUD_EVERY, count=count, size=LOUD_BYTES)
        stage.read(run_ids * 10)
        stage.deployment.workers("runs", 10)
        stage.times(WARM_UP)
        found: dict[str, Any] = {}
        for name in ("without", "with"):
            if name == "with":
                # It begins where the log ends: to stall is what is measured, not to read a page.
                stage.read(run_ids, after=stage.load(run_ids)[0].last_seq, silent=True)
            memory = memory_bytes(stage.api.pid)
            found[f"{name}_ms"] = stage.times(seconds)
            grown = memory_bytes(stage.api.pid) - memory
            found[f"{name}_growth_mb"] = round(grown / 2**20, 2)
    return {"readers": 10, "mb_per_second": round(LOUD_BYTES / LOUD_EVERY / 1e6, 2), **found}


PARTS = {
    "many_runs": on_many_runs,
    "one_run": on_one_run,
    "deltas": deltas,
    "stalled": stalled,
}


def report(figures: dict[str, Any]) -> None:
    """Print the figures."""
    head = ["", "readers", "reads/s", "p50 ms", "p99 ms", "API CPU %", "worker CPU %"]
    rows = [
        [
            *(name, found["idle"]["readers"], found["reads_per_second"]),
            *(found["late_ms"]["p50"], found["late_ms"]["p99"]),
            *(found["api_cpu_percent"], found["worker_cpu_percent"]),
            *(found["idle"]["bytes_each"], found["idle"]["redis_connections"]),
        ]
        for name in ("many_runs", "one_run")
        if (found := figures.get(name))
    ]
    if rows:
        head += ["idle: bytes each", "connections more"]
        show("from a yield to its reader", [head, *rows])
    for name in ("deltas", "stalled"):
        if name in figures:
            print(name, orjson.dumps(figures[name], option=orjson.OPT_INDENT_2).decode())


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("streams")
    amounts = QUICK if given.quick else Amounts()
    parts = [name for name in PARTS if not given.only or name in given.only.split(",")]
    rounds: list[dict[str, Any]] = []
    with open_server(durable=True) as (url, notes):
        server = Probe(url).version()
        for number in range(1, given.rounds + 1):
            print(f"round {number} of {given.rounds}", flush=True)
            rounds.append({name: PARTS[name](url, notes, amounts) for name in parts})
    figures = {**machine(), "server": f"{server}, appendfsync everysec", "rounds": given.rounds}
    figures |= medians(rounds)
    report(figures)
    keep("streams", figures, quick=given.quick)


if __name__ == "__main__":
    main()
