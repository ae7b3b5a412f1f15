"""Reading a provider's stream, beside the official SDKs: `python -m bench.providers`.

The same bytes over real HTTP: a reply of 5,000 deltas in each protocol, from a server that writes
as fast as it is read. What is counted is the reading: ours with the events that loops get.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from loops.closing import closing
from loops.messages import Messages
from loops.model import ModelPort, ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from loops.reply import TextDelta

from .environments import environment
from .measuring import ROOT, arguments, keep, machine, medians, show
from .probe import open_server
from .processes import Processes

SDKS = {"anthropic": "anthropic==2.14.0", "openai": "openai==3.57.0"}
TIMES = 5
REQUEST = ModelRequest(model="m", messages=tuple(Messages.of("hi")))


async def _read(port: ModelPort) -> int:
    deltas = 0
    events = ask(port, REQUEST)
    async with closing(events):
        async for event in events:
            deltas += isinstance(event, TextDelta)
    return deltas


def _port(kind: str, url: str) -> ModelPort:
    if kind == "anthropic":
        return AnthropicModel("m", base_url=url, api_key="none")
    return OpenAIModel("m", base_url=f"{url}/v1", api_key="none")


def ours(kind: str, url: str, times: int) -> list[dict[str, float]]:
    """Read replies by our own reader."""

    async def read() -> list[dict[str, float]]:
        port, found = _port(kind, url), list[dict[str, float]]()
        await _read(port)
        for _ in range(times):
            began, cpu = time.perf_counter(), time.process_time()
            deltas = await _read(port)
            spent = time.process_time() - cpu
            found.append({"deltas": deltas, "seconds": time.perf_counter() - began, "cpu": spent})
        return found

    return asyncio.run(read())


def theirs(processes: Processes, kind: str, url: str, times: int) -> list[dict[str, float]]:
    """Read replies by the official SDK, in an environment of its own."""
    python = environment(f"sdk-{kind}", (SDKS[kind],)) / "python"
    script = str(ROOT / "bench" / "drivers" / "sdk_peer.py")
    running = processes.start(f"{kind} sdk", [str(python), script, kind, url, str(times)], {})
    found: list[dict[str, float]] = json.loads(running.wait_for("[", within=120))
    return found


def pace(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return how many deltas were read a second, by the clock and by the processor's time."""
    return {
        "deltas_per_second": round(statistics.median(e["deltas"] / e["seconds"] for e in found)),
        "cpu_us": round(statistics.median(e["cpu"] / e["deltas"] for e in found) * 1e6, 2),
    }


def one_round(processes: Processes, times: int) -> dict[str, Any]:
    """Measure both protocols once, ours and theirs in turn."""
    command = [sys.executable, "-m", "bench.drivers.wire_server"]
    port = processes.start("provider", command, {}).wait_for("")
    url = f"http://127.0.0.1:{port}"
    found: dict[str, Any] = {}
    for kind, package in SDKS.items():
        mine, sdk = pace(ours(kind, url, times)), pace(theirs(processes, kind, url, times))
        ratio = round(mine["deltas_per_second"] / sdk["deltas_per_second"], 2)
        found[kind] = {"ours": mine, "sdk": {"package": package, **sdk}, "to_sdk": ratio}
    return found


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("providers")
    rounds: list[dict[str, Any]] = []
    with open_server() as (_, notes):
        for _ in range(given.rounds):
            with Processes(notes) as processes:
                rounds.append(one_round(processes, 1 if given.quick else TIMES))
    figures = {**machine(), "rounds": given.rounds} | medians(rounds)
    rows = [
        [kind, *figures[kind]["ours"].values(), *figures[kind]["sdk"].values(),
         figures[kind]["to_sdk"]]
        for kind in SDKS
    ]  # fmt: skip
    head = ["", "ours: deltas/s", "µs each", "SDK", "its deltas/s", "µs each", "ours ÷ its"]
    show("a reply of 5,000 deltas", [head, *rows])
    keep("providers", figures, quick=given.quick)


if __name__ == "__main__":
    main()
