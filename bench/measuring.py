"""What every benchmark needs: clocks of processes, order statistics, the machine, the results."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import uvloop

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
QUICK = ROOT / ".loopmill" / "bench"
"""Where the figures of a quick look go: they are no results."""
TICKS = os.sysconf("SC_CLK_TCK")
FILES = 16_384
"""How many files a process may have open: thousands of readers are sockets."""

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a benchmark's coroutine as our own processes run theirs."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def arguments(name: str, *, rounds: int = 3, jobs: int = 10_000) -> argparse.Namespace:
    """Read a benchmark's command line; `--quick` makes everything small, to see that it works."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--quick", action="store_true", help="small counts, one round, no claim")
    parser.add_argument("--only", default="", help="names with commas between, to measure a part")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.jobs = 1, min(given.jobs, 500)
    allow_many_files()
    return given


def allow_many_files() -> None:
    """Raise the limit of open files, for this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which the share of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    return {
        "p50": round(statistics.median(values), 3),
        "p99": round(quantile(values, 0.99), 3),
        "count": len(values),
    }


def medians(rounds: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of every number over the rounds, and the first round's other values."""
    rounds = list(rounds)
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in rounds for name in each):
        values = [each[name] for each in rounds if each.get(name) is not None]
        merged[name] = _merge(values)
    return merged


def _merge(values: list[Any]) -> Any:
    if values and all(isinstance(value, Mapping) for value in values):
        return medians(values)
    if values and all(isinstance(value, int | float) for value in values):
        return round(statistics.median(values), 4)
    return values[0] if values else None


def family(pid: int) -> list[int]:
    """Return the process and all that descend from it."""
    found = [pid]
    for task in _listed(Path(f"/proc/{pid}/task")):
        for child in _text(task / "children").split():
            found += family(int(child))
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor time that the processes and their descendants have used."""
    ticks = 0
    for pid in (member for each in pids for member in family(each)):
        fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / TICKS


def precise_cpu_seconds(pids: Iterable[int]) -> float:
    """Return the same to the nanosecond, for a while in which no thread ends."""
    spent = 0
    for pid in (member for each in pids for member in family(each)):
        for task in _listed(Path(f"/proc/{pid}/task")):
            spent += int((_text(task / "schedstat").split() or ["0"])[0])
    return spent / 1e9


def memory_bytes(pid: int) -> int:
    """Return the resident memory of the process and its descendants."""
    total = 0
    for member in family(pid):
        for line in _text(Path(f"/proc/{member}/status")).splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def machine() -> dict[str, Any]:
    """Say where and when the figures were taken."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": platform.machine(),
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("loopmill", "arq", "redis", "uvloop")},
    }


def keep(name: str, figures: Mapping[str, Any], *, quick: bool) -> None:
    """Write the figures down."""
    folder = QUICK if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}", flush=True)


def show(title: str, rows: Sequence[Sequence[object]]) -> None:
    """Print a table; the first row is its head."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    print(f"\n{title}")
    for number, row in enumerate(texts):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(flush=True)
