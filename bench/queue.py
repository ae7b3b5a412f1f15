"""The queue, beside its peers: `python -m bench.queue`.

One server, one queue after the other, in rounds; each figure is the median of the rounds.

* drain: jobs that do nothing, enqueued before the worker starts. Every worker first holds jobs at a
  closed gate; it is opened, and the clock runs from when a tenth of the jobs is done (so that what
  was claimed and fetched before does not count) to the last one.
* call: enqueue one job and await its result, on an idle queue. Ours is a tool call of a loop,
  which is more: see `drivers/loopmill.py`.
* fan: many calls at once, awaited together.
* idle: a worker with nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .drivers import tally
from .environments import environment, our_own
from .measuring import (
    arguments,
    cpu_seconds,
    keep,
    machine,
    medians,
    memory_bytes,
    precise_cpu_seconds,
    spread,
)
from .peers import OURS, PEERS, Peer
from .probe import Probe, open_server
from .processes import BenchError, Processes, Running
from .queue_report import draw, report

APP = "bench.agents:app"
WIDTHS = (10, 100)
WORKERS = (2, 4)
DRAIN_LIMIT = 300.0
SETTLE = 0.5
"""Seconds in which the jobs that a worker holds at the gate do not become more."""
IDLE = 5.0
GATE_LIMIT = 60.0
LOOK_EACH = 0.005
FEWEST = 2000
"""Jobs that several workers drain at least: more than they fetch ahead."""


@dataclass(frozen=True)
class Place:
    """Where a queue is measured."""

    url: str
    probe: Probe
    notes: Path
    idle: float = IDLE


class Measurement:
    """One round of one queue."""

    def __init__(self, place: Place, peer: Peer, processes: Processes) -> None:
        self._place = place
        self._peer = peer
        self._processes = processes
        self._bin = environment(peer.environment, peer.packages) if peer.environment else our_own()

    def drain(self, jobs: int, workers: int = 1) -> dict[str, Any]:
        """Enqueue the jobs, and let the workers drain them."""
        self._place.probe.client.flushall()
        before = self._place.probe.count()
        enqueued = self._client().ask("enqueue", count=jobs)
        counted = self._place.probe.count()
        counts = tally.make_tally(self._place.notes / f"tally-{time.time_ns()}")
        started = [self._worker(slot, counts.path) for slot in range(workers)]
        held = _wait_at_gate(counts, started)
        counts.open_gate()
        mark = _wait_for(counts, jobs // 10, started)
        end = _wait_for(counts, jobs, started)
        time.sleep(SETTLE)
        worked = self._place.probe.count().since(counted)
        asked = counted.since(before)
        whole = max(1, jobs - mark.done)
        return {
            "jobs": jobs,
            "workers": workers,
            "held_at_gate": held,
            "jobs_per_second": round(whole / max(1e-6, end.last - mark.at), 1),
            "worker_cpu_us": round((end.cpu - mark.cpu) / whole * 1e6, 1),
            "server_cpu_us": round((worked.cpu + asked.cpu) / jobs * 1e6, 1),
            "client_cpu_us": round(enqueued["cpu"] / jobs * 1e6, 1),
            "commands": round((worked.total + asked.total) / jobs, 2),
            "round_trips": round((worked.reads + asked.reads) / jobs, 2),
            "memory_mb": round(memory_bytes(started[0].pid) / 2**20, 1),
        }

    def calls(self, *, quick: bool) -> dict[str, Any]:
        """Time calls one by one and side by side, then look at the idle worker."""
        self._place.probe.client.flushall()
        counts = tally.make_tally(self._place.notes / f"tally-{time.time_ns()}")
        counts.open_gate()
        workers = self._callees(counts.path)
        client = self._client()
        share = 5 if quick else 1
        found: dict[str, Any] = {
            "call_ms": spread(self._time(client, 1, self._peer.calls // share))
        }
        for width in WIDTHS:
            took = self._time(client, width, max(2, self._peer.fans // share))
            found[f"fan_{width}_ms"] = spread(took)
        return found | self._idle(workers)

    def _time(self, client: Running, width: int, count: int) -> list[float]:
        if self._peer is OURS:
            return list(client.ask("in_loop", count=count, width=width)["ms"])
        if width == 1:
            return list(client.ask("calls", count=count)["ms"])
        return list(client.ask("fan", count=count, width=width)["ms"])

    def _idle(self, workers: list[Running]) -> dict[str, Any]:
        time.sleep(2 * SETTLE)
        pids = [each.pid for each in workers]
        spent, before = precise_cpu_seconds(pids), self._place.probe.count()
        time.sleep(self._place.idle)
        spent = precise_cpu_seconds(pids) - spent
        asked = self._place.probe.count().since(before)
        return {
            "idle_processes": len(workers),
            "idle_cpu_percent": round(spent / self._place.idle / len(workers) * 100, 2),
            "idle_commands_per_second": round(asked.total / self._place.idle / len(workers), 1),
        }

    def ping(self, count: int) -> dict[str, float]:
        """Time a PING by redis-py's asyncio client."""
        return spread(list(self._client().ask("ping", count=count)["ms"]))

    def _client(self) -> Running:
        client = self._python("client", "-m", self._peer.module, "client")
        client.wait_for("ready")
        return client

    def _worker(self, slot: int, counts: Path) -> Running:
        options = {tally.PATH: str(counts), tally.SLOT: str(slot)}
        if not self._peer.worker:
            return self._python("worker", "-m", self._peer.module, "worker", options=options)
        program, *rest = self._peer.worker
        command = [str(self._bin / program), *(each.format(url=self._place.url) for each in rest)]
        return self._start("worker", command, options)

    def _callees(self, counts: Path) -> list[Running]:
        """Start what does the calls: ours are two workers, one for loops and one for tools."""
        if self._peer is not OURS:
            return [self._worker(0, counts)]
        slots = ("--concurrency", "100")
        workers = [self._python(each, "-m", "worker", each, *slots) for each in ("runs", "tools")]
        for worker in workers:
            worker.wait_for(" ready: ")
        return workers

    def _python(
        self, role: str, *arguments: str, options: Mapping[str, str] | None = None
    ) -> Running:
        return self._start(role, [str(self._bin / "python"), *arguments], options or {})

    def _start(self, role: str, command: list[str], options: Mapping[str, str]) -> Running:
        url = self._place.url
        ours = {"LOOPMILL_REDIS_URL": url, "LOOPMILL_APP": APP} if self._peer is OURS else {}
        given = {"BENCH_URL": url, **ours, **self._peer.options, **options}
        return self._processes.start(f"{self._peer.name} {role}", command, given)


@dataclass(frozen=True)
class Mark:
    """How far the workers were at one moment."""

    at: float
    done: int
    cpu: float
    last: float
    """When the last job was done."""


def _wait_at_gate(counts: tally.Tally, workers: list[Running]) -> list[int]:
    """Return how many jobs each worker holds, once they become no more.

    A worker may hold none, if others have fetched all there is.
    """
    deadline, held, since = time.monotonic() + GATE_LIMIT, [0], time.monotonic()
    while True:
        now = [each.held for each in counts.read()[: len(workers)]]
        if now != held:
            held, since = now, time.monotonic()
        if time.monotonic() - since > (SETTLE if all(held) else 10 * SETTLE) and any(held):
            return held
        _check(workers, deadline, f"held {held} jobs at the gate")
        time.sleep(LOOK_EACH)


def _wait_for(counts: tally.Tally, jobs: int, workers: list[Running]) -> Mark:
    deadline = time.monotonic() + DRAIN_LIMIT
    while True:
        read = counts.read()
        now, done = time.time(), sum(each.done for each in read)
        if done >= jobs:
            spent = cpu_seconds(each.pid for each in workers)
            return Mark(now, done, spent, max(each.last for each in read))
        _check(workers, deadline, f"did {done} of {jobs} jobs")
        time.sleep(LOOK_EACH)


def _check(workers: list[Running], deadline: float, what: str) -> None:
    for worker in workers:
        worker.check()
    if time.monotonic() > deadline:
        raise BenchError(f"the workers of {workers[0].name} {what}: {workers[0].told()}")


def measure(place: Place, peer: Peer, jobs: int, *, quick: bool) -> dict[str, Any]:
    """Measure one queue once; what fails is said, and costs the others nothing."""
    found: dict[str, Any] = {}
    try:
        with Processes(place.notes) as processes:
            found["drain"] = Measurement(place, peer, processes).drain(jobs)
        for workers in WORKERS:
            with Processes(place.notes) as processes:
                several = Measurement(place, peer, processes).drain(_share(peer, jobs), workers)
            found[f"drain_{workers}"] = several
        with Processes(place.notes) as processes:
            found |= Measurement(place, peer, processes).calls(quick=quick)
    except BenchError as error:
        found["failed"] = str(error)[:1500]
        print(f"! {peer.name}: {error}", flush=True)
    return found


def _share(peer: Peer, jobs: int) -> int:
    """Return how many jobs several workers drain: fewer for who takes seconds for a thousand."""
    return max(FEWEST, jobs if peer is OURS else jobs // 4)


def main() -> int:
    """Measure, print, keep; return 1 when a queue did not do its work."""
    given = arguments("queue")
    chosen = [
        each for each in (OURS, *PEERS) if not given.only or each.name in given.only.split(",")
    ]
    rounds: dict[str, list[dict[str, Any]]] = {each.name: [] for each in chosen}
    pings: list[dict[str, float]] = []
    with open_server() as (url, notes):
        place = Place(url, Probe(url), notes, idle=1.0 if given.quick else IDLE)
        server = f"{place.probe.version()}, without persistence"
        for number in range(1, given.rounds + 1):
            with Processes(notes) as processes:
                pings.append(Measurement(place, OURS, processes).ping(40 if given.quick else 300))
            for peer in chosen:
                print(f"round {number} of {given.rounds}: {peer.name}", flush=True)
                rounds[peer.name].append(measure(place, peer, given.jobs, quick=given.quick))
    figures = {
        **machine(),
        "server": server,
        "rounds": given.rounds,
        "ping_ms": medians(pings),
        "queues": {name: medians(found) for name, found in rounds.items()},
    }
    report(figures, chosen)
    keep("queue", figures, quick=given.quick)
    draw(quick=given.quick)
    return int(any("failed" in found for found in figures["queues"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
