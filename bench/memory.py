"""What a finished run keeps in the server: `python -m bench.memory`.

The run writes 5,000 tokens at the pace of a model, with ten tool calls in the middle. What counts
is the memory of every key that has the run's or its session's id in its name. Then its retention,
which is short here, passes, and nothing may be left of it but what the written list names and its
session, which lives longer and by a time of its own.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from worker.keys import stays
from worker.new_run import NewRun
from worker.resources import open_resources

from .agents import ESSAY
from .deployment import TENANT, Deployment
from .following import events_of
from .measuring import arguments, keep, machine, medians, run, show
from .probe import Probe, open_server
from .processes import BenchError, Processes

RETENTION = 3.0
GONE_WITHIN = 10.0
FEWEST_TOKENS, CALLS = 4500, 10


async def write(deployment: Deployment) -> tuple[str, str, int]:
    """Let the run be done; return its id, its session's, and how many characters it wrote."""
    async with open_resources(deployment.read_settings()) as resources:
        message = {"role": "user", "content": "write an essay"}
        made = await resources.runs.create(TENANT, NewRun("essay", [message]))
        events = await events_of(resources, TENANT, made.run_id)
        told = [event.data["text"] for event in events if event.type == "text.delta"]
        finished = sum(event.type == "tool.finished" for event in events)
        if finished != CALLS or sum(map(len, told)) < 4 * FEWEST_TOKENS:
            raise BenchError(f"the run wrote {sum(map(len, told))} characters, {finished} results")
        return made.run_id, made.session_id, sum(map(len, told))


def part_of(key: str) -> str:
    """Return which part of a run or a session the key is."""
    kind = "session" if ":session:" in key else "run" if ":run:" in key else key.partition(":")[0]
    part = key.rpartition(":")[2]
    return kind if part.startswith(("run_", "ses_")) else f"{kind}:{part}"


def wait_until_gone(probe: Probe, run_id: str) -> float:
    """Return after how many seconds no key of the run was left.

    Raises:
        BenchError: When some stay.
    """
    began = time.monotonic()
    while kept := list(probe.bytes_of(run_id)):
        if time.monotonic() - began > GONE_WITHIN:
            raise BenchError(f"after {GONE_WITHIN:g} s there still are {kept}")
        time.sleep(0.1)
    return time.monotonic() - began


def left_over(probe: Probe, session_id: str) -> dict[str, Any]:
    """Sort what is left: of the session, on the written list, of living workers.

    Raises:
        BenchError: When a key has no time to live and is not on the list.
    """
    found: dict[str, list[str]] = {"session": [], "written_list": [], "with_a_time": []}
    for key in probe.bytes_of(""):
        if probe.client.ttl(key) < 0 and not stays(key):
            raise BenchError(f"the key {key!r} never ends, and is not on the written list")
        of = "session" if session_id in key else "written_list" if stays(key) else "with_a_time"
        found[of].append(key)
    return {name: len(keys) for name, keys in found.items()}


def one_round(url: str, notes: Path, *, quick: bool) -> dict[str, Any]:
    """Measure one run on an empty server."""
    probe = Probe(url)
    probe.client.flushall()
    settings = {"LOOPMILL_RETENTION": f"{RETENTION:g}s", "BENCH_PACE": "0" if quick else "10"}
    with Processes(notes) as processes:
        deployment = Deployment(url, processes, settings)
        deployment.workers("runs", 10)
        deployment.workers("tools", 10)
        run_id, session_id, characters = run(write(deployment))
        kept = probe.bytes_of(f"{run_id}|{session_id}")
        entries = probe.client.xlen(f"loopmill:{TENANT}:run:{run_id}:log")
        gone = wait_until_gone(probe, run_id)
        return {
            "tokens": ESSAY,
            "characters": characters,
            "tool_calls": CALLS,
            "log_entries": entries,
            "bytes": sum(kept.values()),
            "bytes_by_key": {part_of(key): size for key, size in kept.items()},
            "retention_seconds": RETENTION,
            "gone_after_seconds": round(gone, 1),
            "keys_left": left_over(probe, session_id),
        }


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("memory")
    with open_server() as (url, notes):
        server = Probe(url).version()
        rounds = []
        for number in range(1, given.rounds + 1):
            print(f"round {number} of {given.rounds}", flush=True)
            rounds.append(one_round(url, notes, quick=given.quick))
    figures = {**machine(), "server": server, "rounds": given.rounds, **medians(rounds)}
    parts = sorted(figures["bytes_by_key"].items(), key=lambda part: -part[1])
    whole = [["all keys", figures["bytes"]]]
    show("bytes of a finished run", [["key", "bytes"], *map(list, parts), *whole])
    print(
        f"{figures['log_entries']} log entries; gone after {figures['gone_after_seconds']} s; "
        f"left: {figures['keys_left']}"
    )
    keep("memory", figures, quick=given.quick)


if __name__ == "__main__":
    main()
