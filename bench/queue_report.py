"""What the queue's figures mean: tables, ratios to the best peer, a plot."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .environments import environment
from .measuring import QUICK, RESULTS, ROOT, show
from .peers import OURS, Peer

PLOT = ("matplotlib==3.11.2",)

Figures = Mapping[str, Any]
Pick = Callable[[Figures], float | None]


def _at(*path: str) -> Pick:
    def pick(found: Figures) -> float | None:
        value: Any = found
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return None if value is None else float(value)

    return pick


COLUMNS: tuple[tuple[str, Pick], ...] = (
    ("jobs/s", _at("drain", "jobs_per_second")),
    ("2 workers", _at("drain_2", "jobs_per_second")),
    ("4 workers", _at("drain_4", "jobs_per_second")),
    ("worker µs", _at("drain", "worker_cpu_us")),
    ("server µs", _at("drain", "server_cpu_us")),
    ("client µs", _at("drain", "client_cpu_us")),
    ("commands", _at("drain", "commands")),
    ("trips", _at("drain", "round_trips")),
    ("call p50", _at("call_ms", "p50")),
    ("p99", _at("call_ms", "p99")),
    ("fan 10", _at("fan_10_ms", "p50")),
    ("fan 100", _at("fan_100_ms", "p50")),
    ("idle CPU %", _at("idle_cpu_percent")),
    ("idle cmd/s", _at("idle_commands_per_second")),
    ("MB", _at("drain", "memory_mb")),
)

RATIOS: tuple[tuple[str, Pick, bool], ...] = (
    ("jobs_per_second", _at("drain", "jobs_per_second"), True),
    ("jobs_per_second_2_workers", _at("drain_2", "jobs_per_second"), True),
    ("jobs_per_second_4_workers", _at("drain_4", "jobs_per_second"), True),
    ("worker_cpu", _at("drain", "worker_cpu_us"), False),
    ("call_p50", _at("call_ms", "p50"), False),
    ("fan_10", _at("fan_10_ms", "p50"), False),
    ("fan_100", _at("fan_100_ms", "p50"), False),
    ("idle_cpu", _at("idle_cpu_percent"), False),
)
"""Name, where the figure is, and whether more is better."""


def report(figures: dict[str, Any], peers: Sequence[Peer]) -> None:
    """Add to the figures what each queue is, and the ratios; print all of it."""
    queues = figures["queues"]
    for peer in peers:
        about = {"version": peer.version, "settings": peer.settings, "promise": peer.promise}
        queues[peer.name] = about | queues[peer.name]
    figures["ratios"] = ratios(figures)
    head = ["", *(name for name, _ in COLUMNS)]
    rows = [[name, *(pick(found) for _, pick in COLUMNS)] for name, found in queues.items()]
    show("no-op jobs, and calls in ms (medians)", [head, *rows])
    told = [
        [name, found["version"], found["settings"], found["promise"]]
        for name, found in queues.items()
    ]
    show("what was measured", [["", "version", "settings", "when a worker dies"], *told])
    named = [[name, *each.values()] for name, each in figures["ratios"].items()]
    show(
        "ours beside others",
        [["", "ours", "best peer", "its figure", "ours ÷ its", "÷ arq"], *named],
    )
    ping = figures["ping_ms"]["p50"]
    print(f"a PING by redis-py takes {ping} ms; a call of ours {figures['call_in_pings']} of them")


def ratios(figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return ours beside the best peer and beside stock arq, figure by figure."""
    queues = dict(figures["queues"])
    ours = queues.pop(OURS.name, {})
    call = _at("call_ms", "p50")(ours)
    figures["call_in_pings"] = round(call / figures["ping_ms"]["p50"], 1) if call else None
    found: dict[str, dict[str, Any]] = {}
    for name, pick, more_is_better in RATIOS:
        others = {peer: value for peer, each in queues.items() if (value := pick(each)) is not None}
        mine = pick(ours)
        if mine is None or not others:
            continue
        best = (max if more_is_better else min)(others, key=lambda peer: others[peer])
        arq = others.get("arq")
        found[name] = {
            "ours": mine,
            "best": best,
            "best_value": others[best],
            "to_best": _ratio(mine, others[best]),
            "to_arq": _ratio(mine, arq),
        }
    return found


def _ratio(mine: float, other: float | None) -> float | None:
    return round(mine / other, 3) if other else None


def draw(*, quick: bool) -> None:
    """Draw the plot, in the environment that has matplotlib."""
    folder = QUICK if quick else RESULTS
    python = environment("plot", PLOT) / "python"
    script = [str(python), str(ROOT / "bench" / "plot.py"), str(folder / "queue.json")]
    subprocess.run(script, check=True)
