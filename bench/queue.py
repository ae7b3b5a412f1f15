"""The queue, beside its peers: `python -m bench.queue`.

One server, one queue after the other, in rounds; each figure is the median of the rounds.

* drain: jobs that do nothing, enqueued before the worker starts. Every worker first holds jobs at a
  closed gate; the clock runs from its opening to the last job.
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
from .processes import BenchFailed, Processes, Running
from .queue_report import draw, report

APP = "bench.agents:app"
WIDTHS = (10, 100)
WORKERS = (2, 4)
DRAIN_LIMIT = 300.0
SETTLE = 0.5
"""Seconds in which the jobs that a worker holds at the gate do not become more."""
IDLE = 5.0


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
        spent = cpu_seconds(each.pid for each in started)
        began = counts.open_gate()
        _wait_for(counts, jobs, started)
        time.sleep(SETTLE)
        after = self._place.probe.count()
        spent = cpu_seconds(each.pid for each in started) - spent
        took = max(each.last for each in counts.read()) - began
        worked, asked = after.since(counted), counted.since(before)
        # Jobs that were held had been claimed before: what is left are whole jobs.
        whole = max(1, jobs - held)
        return {
            "jobs": jobs,
            "workers": workers,
            "held_at_gate": held,
            "jobs_per_second": round(whole / took, 1),
            "worker_cpu_us": round(spent / whole * 1e6, 1),
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
        found: dict[str, Any] = {"call_ms": spread(self._time(client, 1, self._peer.calls // share))}
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


def _wait_at_gate(counts: tally.Tally, workers: list[Running]) -> int:
    """Return how many jobs the workers hold, once each holds some, and they are no more."""
    deadline, held, since = time.monotonic() + 60, 0, time.monotonic()
    while True:
        now = counts.read()[: len(workers)]
        if sum(each.held for each in now) != held:
            held, since = sum(each.held for each in now), time.monotonic()
        if all(each.held for each in now) and time.monotonic() - since > SETTLE:
            return held
        _check(workers, deadline, f"held {[each.held for each in now]} jobs at the gate")
        time.sleep(0.02)


def _wait_for(counts: tally.Tally, jobs: int, workers: list[Running]) -> None:
    deadline = time.monotonic() + DRAIN_LIMIT
    while (done := sum(each.done for each in counts.read())) < jobs:
        _check(workers, deadline, f"did {done} of {jobs} jobs")
        time.sleep(0.02)


def _check(workers: list[Running], deadline: float, what: str) -> None:
    for worker in workers:
        worker.check()
    if time.monotonic() > deadline:
        raise BenchFailed(f"the workers of {workers[0].name} {what}: {workers[0].told()}")


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
    except BenchFailed as error:
        found["failed"] = str(error)[:1500]
        print(f"! {peer.name}: {error}", flush=True)
    return found


def _share(peer: Peer, jobs: int) -> int:
    """Return how many jobs several workers drain: fewer for who takes seconds for a thousand."""
    return jobs if peer is OURS else max(jobs // 4, min(jobs, 500))


def main() -> int:
    """Measure, print, keep; return 1 when a queue did not do its work."""
    given = arguments("queue")
    chosen = [each for each in (OURS, *PEERS) if not given.only or each.name in given.only.split(",")]
    rounds: dict[str, list[dict[str, Any]]] = {each.name: [] for each in chosen}
    pings: list[dict[str, float]] = []
    with open_server() as (url, notes):
        place = Place(url, Probe(url), notes, idle=1.0 if given.quick else IDLE)
        server = place.probe.version()
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
