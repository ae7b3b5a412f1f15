"""How cost grows: `python -m bench.growth`.

* jobs: what one job costs worker and server, with ever more of them waiting.
* events: what one delta costs worker and API, in ever longer logs.
* readers: how late an event is at its reader, and what reading it costs the API, with ever more
  readers of one run.

What more workers bring stands with the queue and with the runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from .measuring import arguments, keep, machine, medians, show
from .peers import OURS
from .probe import Probe, open_server
from .processes import Processes
from .queue import Measurement, Place
from .streams import Amounts, deltas, on_one_run

JOBS = (1_000, 10_000, 100_000)
LOGS = (2.0, 8.0, 32.0)
"""Seconds for which models stream: the log grows with them."""
READERS = (10, 100, 1000)
STREAMING = Amounts(models=20, deltas_per_second=10_000.0)
READING = Amounts(seconds=8.0)


def jobs(place: Place, waiting: int) -> dict[str, Any]:
    """Drain so many jobs with one worker."""
    with Processes(place.notes) as processes:
        found = Measurement(place, OURS, processes).drain(waiting)
    names = ("jobs", "jobs_per_second", "worker_cpu_us", "server_cpu_us", "commands")
    return {name: found[name] for name in names}


def events(url: str, notes: Path, seconds: float) -> dict[str, Any]:
    """Let models stream for so long."""
    found = deltas(url, notes, replace(STREAMING, seconds=seconds))
    each = found["deltas"] // found["models"]
    return {"deltas_each": each} | {name: found[name] for name in ("worker_cpu_us", "api_cpu_us")}


def readers(url: str, notes: Path, count: int) -> dict[str, Any]:
    """Let so many readers follow one run."""
    found = on_one_run(url, notes, replace(READING, readers=count))
    return {
        "readers": count,
        "late_ms": found["late_ms"],
        "api_us_a_read": round(found["api_cpu_percent"] * 1e4 / found["reads_per_second"], 1),
    }


def one_round(url: str, notes: Path, *, quick: bool) -> dict[str, Any]:
    """Measure everything once."""
    place, steps = Place(url, Probe(url), notes), slice(2 if quick else 3)
    return {
        **{f"jobs_{count}": jobs(place, count) for count in JOBS[steps]},
        **{f"log_{seconds:g}_s": events(url, notes, seconds) for seconds in LOGS[steps]},
        **{f"readers_{count}": readers(url, notes, count) for count in READERS[steps]},
    }


def report(figures: dict[str, Any]) -> None:
    """Print the figures."""
    for kind, title in (
        ("jobs_", "no-op jobs that wait"),
        ("log_", "deltas in a log"),
        ("readers_", "readers of one run"),
    ):
        found = [each for name, each in figures.items() if name.startswith(kind)]
        show(title, [list(found[0]), *(list(each.values()) for each in found)])


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("growth")
    with open_server() as (url, notes):
        rounds = [one_round(url, notes, quick=given.quick) for _ in range(given.rounds)]
    figures = {**machine(), "rounds": given.rounds} | medians(rounds)
    report(figures)
    keep("growth", figures, quick=given.quick)


if __name__ == "__main__":
    main()
