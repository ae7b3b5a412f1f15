"""The goals beside the figures, as a table: `python -m bench.goals`.

The figures are those that stand in `bench/results`; `docs/performance.md` shows the same table, and
a test holds it to that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measuring import RESULTS


@dataclass(frozen=True)
class Goal:
    """One goal, and where its figure stands."""

    work: str
    sign: str
    """`≥` where more is better, else `≤`."""
    limit: float
    place: str
    """The file, and the way in it, with dots between."""
    unit: str = ""

    @property
    def file(self) -> str:
        """The name of the file that has the figure."""
        return f"{self.place.partition('.')[0]}.json"

    def row(self, folder: Path) -> str:
        """Return the goal as a row of a table."""
        figure = read(folder, self.place)
        is_reached = figure >= self.limit if self.sign == "≥" else figure <= self.limit
        goal = f"{self.sign} {shown(self.limit)}{self.unit}"
        reached = "yes" if is_reached else "**no**"
        return f"| {self.work} | {goal} | {shown(figure)}{self.unit} | {reached} |"


def shown(number: float) -> str:
    """Return the number with three figures, or whole when it is large."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


GOALS = (
    Goal("no-op jobs a second, to stock arq", "≥", 10, "queue.ratios.jobs_per_second.to_arq", " ×"),
    Goal("… to the best peer", "≥", 8, "queue.ratios.jobs_per_second.to_best", " ×"),
    Goal("one call, p50, to the best peer", "≤", 0.333, "queue.ratios.call_p50.to_best", " ×"),
    Goal("… in PINGs by redis-py", "≤", 15, "queue.call_in_pings"),
    Goal("10 calls at once, to the best peer", "≤", 0.25, "queue.ratios.fan_10.to_best", " ×"),
    Goal("100 calls at once, to the best peer", "≤", 0.25, "queue.ratios.fan_100.to_best", " ×"),
    Goal("runs a second, 2 run workers to 1", "≥", 1.8, "runs.scaling_2.to_one", " ×"),
    Goal("runs a second, 4 run workers to 1", "≥", 3.4, "runs.scaling_4.to_one", " ×"),
    Goal(
        "a run of 30 calls, over the same in process", "≤", 25, "runs.overhead.overhead_ms", " ms"
    ),
    Goal("1,000 readers of 1,000 runs, p50", "≤", 5, "streams.many_runs.late_ms.p50", " ms"),
    Goal("… p99", "≤", 25, "streams.many_runs.late_ms.p99", " ms"),
    Goal("1,000 readers of one run, p50", "≤", 40, "streams.one_run.late_ms.p50", " ms"),
    Goal("… p99", "≤", 100, "streams.one_run.late_ms.p99", " ms"),
    Goal(
        "Redis connections for 1,000 idle readers",
        "≤",
        0,
        "streams.many_runs.idle.redis_connections",
    ),
    Goal("memory for an idle reader", "≤", 20_000, "streams.many_runs.idle.bytes_each", " B"),
    Goal("provider deltas a second", "≥", 20_000, "streams.deltas.taken_per_second"),
    Goal(
        "Anthropic's stream in large pieces, to the faster of its SDK's clients",
        "≥",
        5,
        "providers.anthropic.to_sdk.events",
        " ×",
    ),
    Goal("OpenAI's, to its SDK's", "≥", 5, "providers.openai.to_sdk.events", " ×"),
    Goal("a finished run in Redis, all keys", "≤", 250_000, "memory.bytes", " B"),
    Goal(
        "a step in a session of 10,000 messages, to one of 100: in files",
        "≤",
        1.5,
        "sessions.files.worst",
        " ×",
    ),
    Goal("… in memory", "≤", 1.5, "sessions.memory.worst", " ×"),
    Goal("… on the server, by a worker", "≤", 1.5, "sessions.server.worst", " ×"),
    Goal("what the gateway adds to a request, idle, p50", "≤", 6, "gateway.worst_added_ms", " ms"),
    Goal("its answers a second, to LiteLLM's proxy", "≥", 6, "gateway.ratios.whole", " ×"),
    Goal("… streamed", "≥", 6, "gateway.ratios.streamed", " ×"),
    Goal("… with a callback, so two rounds", "≥", 6, "gateway.ratios.callback", " ×"),
)


def read(folder: Path, place: str) -> float:
    """Return a figure.

    Raises:
        KeyError: When it is not there.
    """
    name, *path = place.split(".")
    value: Any = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    for part in path:
        value = value[part]
    return float(value)


def table(folder: Path = RESULTS) -> str:
    """Return all goals that were measured there as a table in Markdown."""
    head = ["| work | goal | figure | reached |", "|---|---|---|---|"]
    measured = [goal for goal in GOALS if (folder / goal.file).is_file()]
    return "\n".join([*head, *(goal.row(folder) for goal in measured)])


if __name__ == "__main__":
    print(table())
