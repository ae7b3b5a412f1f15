"""Reading a provider's stream, beside the official SDKs: `python -m bench.providers`.

The same bytes over real HTTP: a reply of 5,000 deltas in each protocol, from a server that writes
as fast as it is read. What is counted is the reading, from bytes to typed events, in these ways:

* `events`: one after the other, by `ask` and by the SDK's `create(stream=True)`; the SDK reads
  with its asynchronous client and with its blocking one, and the faster of both counts.
* `message`: with the message that grows, by `stream` and by the SDK's own `stream`.
* `alone`: as `events`, but each event is a piece of the HTTP body for itself, so that most of the
  time is that of the HTTP library.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from loops.closing import closing
from loops.messages import Messages
from loops.model import ModelPort, ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from loops.reply import TextDelta
from loops.stream import stream

from .drivers.sdk_peer import Reads, timed
from .environments import environment
from .measuring import ROOT, arguments, keep, machine, medians, show
from .probe import open_server
from .processes import Processes

SDKS = {"anthropic": "anthropic==2.14.0", "openai": "openai==3.57.0"}
WAYS = ("events", "message", "alone")
PATIENCE = 2.0
"""For how many seconds each way is read."""

REQUEST = ModelRequest(model="m", messages=tuple(Messages.of("hi")))


async def _events(port: ModelPort) -> int:
    async with closing(events := ask(port, REQUEST)):
        return sum([isinstance(event, TextDelta) async for event in events])


async def _message(port: ModelPort) -> int:
    async with stream(port, ["hi"]) as reply:
        deltas = sum([isinstance(event, TextDelta) async for event in reply])
        assert reply.message.text
    return deltas


def _reads(kind: str, url: str) -> Reads:
    def port(url: str) -> ModelPort:
        if kind == "anthropic":
            return AnthropicModel("m", base_url=url, api_key="none")
        return OpenAIModel("m", base_url=f"{url}/v1", api_key="none")

    return {
        "events": partial(_events, port(url)),
        "message": partial(_message, port(url)),
        "alone": partial(_events, port(f"{url}/alone")),
    }


def ours(kind: str, url: str, patience: float) -> dict[str, Any]:
    """Read replies by our own reader."""
    return _paces(asyncio.run(timed(_reads(kind, url), patience)))


def theirs(processes: Processes, kind: str, url: str, patience: float) -> dict[str, Any]:
    """Read replies by the official SDK, in an environment of its own."""
    python = environment(f"sdk-{kind}", (SDKS[kind],)) / "python"
    script = str(ROOT / "bench" / "drivers" / "sdk_peer.py")
    running = processes.start(f"{kind} sdk", [str(python), script, kind, url, str(patience)], {})
    return _paces(json.loads(running.wait_for("{", within=120)))


def _paces(found: Mapping[str, Sequence[dict[str, float]]]) -> dict[str, Any]:
    """Return how many deltas were read a second, by the clock and by the processor's time."""
    return {
        way: {
            "deltas_per_second": round(statistics.median(e["deltas"] / e["seconds"] for e in each)),
            "cpu_us": round(statistics.median(e["cpu"] / e["deltas"] for e in each) * 1e6, 2),
        }
        for way, each in found.items()
    }


def one_round(processes: Processes, patience: float) -> dict[str, Any]:
    """Measure both protocols once, ours and theirs in turn."""
    command = [sys.executable, "-m", "bench.drivers.wire_server"]
    port = processes.start("provider", command, {}).wait_for("")
    url = f"http://127.0.0.1:{port}"
    found: dict[str, Any] = {}
    for kind, package in SDKS.items():
        mine, sdk = ours(kind, url, patience), theirs(processes, kind, url, patience)
        ratios = {way: _ratio(mine[way], sdk[way]) for way in WAYS}
        ratios["events"] = min(ratios["events"], _ratio(mine["events"], sdk["blocking"]))
        found[kind] = {"ours": mine, "sdk": {"package": package, **sdk}, "to_sdk": ratios}
    return found


def _ratio(mine: dict[str, float], sdk: dict[str, float]) -> float:
    return round(mine["deltas_per_second"] / sdk["deltas_per_second"], 2)


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("providers")
    rounds: list[dict[str, Any]] = []
    with open_server() as (_, notes):
        for _ in range(given.rounds):
            with Processes(notes) as processes:
                rounds.append(one_round(processes, 0.0 if given.quick else PATIENCE))
    figures = {**machine(), "rounds": given.rounds} | medians(rounds)
    rows = [
        [f"{kind}: {way}", *figures[kind]["ours"].get(way, {"": "", "-": ""}).values(),
         *figures[kind]["sdk"][way].values(), figures[kind]["to_sdk"].get(way)]
        for kind in SDKS
        for way in (*WAYS, "blocking")
    ]  # fmt: skip
    head = ["", "ours: deltas/s", "µs each", "its deltas/s", "µs each", "ours ÷ its"]
    show("a reply of 5,000 deltas", [head, *rows])
    keep("providers", figures, quick=given.quick)


if __name__ == "__main__":
    main()
