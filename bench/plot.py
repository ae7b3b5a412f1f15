"""Draw queue.json as queue.png: `bench/.envs/plot/bin/python bench/plot.py results/queue.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import NullFormatter  # the backend is chosen first

PANELS = (
    ("no-op jobs per second, one worker process", ("drain", "jobs_per_second"), True),
    ("one call awaited, idle, p50 (ms); ours: by a loop", ("call_ms", "p50"), False),
    ("100 calls awaited together (ms)", ("fan_100_ms", "p50"), False),
    ("worker CPU per job (µs)", ("drain", "worker_cpu_us"), False),
)
OURS, OTHERS = "#c2410c", "#94a3b8"


def figure_of(found: dict[str, Any], path: tuple[str, str]) -> float | None:
    value = found.get(path[0], {}).get(path[1])
    return None if value is None else float(value)


def panel(
    axes: Any, queues: dict[str, Any], title: str, path: tuple[str, str], *, up: bool
) -> None:
    """Draw one figure of all queues, the best on top; the axis is logarithmic, as ratios are."""
    known = {name: value for name, each in queues.items() if (value := figure_of(each, path))}
    names = sorted(known, key=lambda name: known[name], reverse=not up)
    values = [known[name] for name in names]
    axes.barh(names, values, color=[OURS if name == "Loopmill" else OTHERS for name in names])
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(title, fontsize=10, loc="left")
    axes.margins(x=0.2)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    for place, value in enumerate(values):
        axes.text(
            value * 1.05,
            place,
            f"{value:,.3g}" if value < 100 else f"{value:,.0f}",
            va="center",
            fontsize=7,
        )


def main() -> None:
    path = Path(sys.argv[1])
    figures = json.loads(path.read_text(encoding="utf-8"))
    page, axes = pyplot.subplots(2, 2, figsize=(11, 7), constrained_layout=True)
    for place, (title, where, up) in zip(axes.flat, PANELS, strict=True):
        panel(place, figures["queues"], title, where, up=up)
    told = f"{figures['date']} · {figures['processor']}, {figures['cores']} cores · "
    page.suptitle(f"{told}{figures['server']} · rounds: {figures['rounds']}, medians", fontsize=9)
    page.savefig(path.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
