"""What a long session costs: `python -m bench.sessions`.

A session whose older part is summed up is opened, appended to and summed up again: one that begins
with 100 messages, and one that begins with 10,000. What a run needs of it is equally long in both,
so that all should take as long. In memory and in files it is done by the kit's `Session`; on a
server by the scripts of workers: a pass begins, a message is appended, a marker is.

One step here, one step there: whatever else the machine does meanwhile befalls both.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from loops.context import Context
from loops.kit import FileSessions, MemorySessions, Session, Turn
from loops.kit.stores import SessionStore
from loops.local import LocalRuntime
from worker.begin import Begun, begin
from worker.new_run import NewRun
from worker.outbox import Outbox
from worker.queue import Claim
from worker.resources import Resources, open_resources
from worker.settings import Settings
from worker.wire import Part

from .measuring import arguments, keep, machine, medians, run, show, spread
from .probe import Probe, open_server

SHORT, LONG = 100, 10_000
WINDOW = 40
"""How many messages a run needs of a session, about."""
WORDS = "what was said in one message of many, as long as a sentence or two of them are. " * 3
KEPT = WINDOW * 70
"""The same in the tokens of such messages."""
STEPS = 100
STEP_NAMES = ("open", "append", "compact")
TENANT = "bench"


def said(number: int) -> dict[str, Any]:
    """Return a message: one of a person, and then one of the model."""
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": [{"type": "text", "text": f"{number} {WORDS}"}]}


@dataclass
class Watch:
    """Takes times."""

    took: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    async def time(self, name: str, work: Awaitable[Any]) -> Any:
        """Return what the work gives, and note how many milliseconds it took."""
        began = time.perf_counter()
        given = await work
        self.took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        return given


class Talk(Protocol):
    """A session that grows by two messages at a time."""

    async def fill(self, length: int) -> None:
        """Let the session have so many messages, of which the newest are needed."""
        ...

    async def step(self, watch: Watch) -> None:
        """Open the session, append two messages, sum up what is too old; and time each."""
        ...


class Summary:
    """A model that sums up at once."""

    model = "summary"

    async def stream(self, **_: Any) -> AsyncIterator[Turn]:
        """Yield a summary."""
        yield Turn([{"type": "text", "text": "<summary>They talked.</summary>"}], "end_turn")

    async def complete(self, **_: Any) -> str:
        """Return a summary."""
        return "They talked."


class KitTalk:
    """A session of the kit, in one process."""

    def __init__(self, store: SessionStore, name: str) -> None:
        self.store = store
        self.name = name

    async def fill(self, length: int) -> None:
        """Let the session have so many messages, of which the newest are needed."""
        key = f'[null,"{self.name}"]'
        await self.store.append(key, 0, [said(number) for number in range(length)])
        first = length - WINDOW
        front = {"summary": "They talked.", "first_kept": first, "cleared": first, "front": []}
        await self.store.mark(key, front)

    async def step(self, watch: Watch) -> None:
        """Do one step in a run of its own."""
        context = Context(chat_id=self.name, sessions=self.store, runtime=LocalRuntime())
        session = await watch.time("open", Session.open(context))
        for number in range(2):
            session.messages.append(said(number))
            await watch.time("append", session.checkpoint())
        summed = await watch.time("compact", session.compact(Summary(), KEPT, 100))
        assert summed is not None


class ServerTalk:
    """A session on a server, as a worker has it."""

    def __init__(self, resources: Resources, name: str) -> None:
        self.resources = resources
        self.name = name

    async def fill(self, length: int) -> None:
        """Let the session have so many messages, of which the newest are needed."""
        await self.resources.sessions.create(TENANT, session_id=self.name)
        names, command = self.resources.keys.session(TENANT, self.name), self.resources.link.command
        await command(
            "RPUSH", names.messages, *(orjson.dumps(said(each)) for each in range(length))
        )
        first = length - WINDOW
        marker = {"summary": "They talked.", "first_kept": first, "cleared": first, "front": []}
        await command("RPUSH", names.markers, orjson.dumps(marker))
        await command("HSET", names.record, "kept", first)

    async def step(self, watch: Watch) -> None:
        """Do one step as a pass of a run of its own."""
        resources = self.resources
        new = NewRun("any", [said(0)], session_id=self.name)
        created = await resources.runs.create(TENANT, new)
        claim, place = await self._claim(), (TENANT, created.run_id)
        begun = await watch.time("open", begin(resources.link, resources.keys, claim, run=place))
        assert isinstance(begun, Begun)
        record = resources.keys.run(TENANT, created.run_id).record
        for slot in range(2):
            flush = Outbox(Counter()).take(slot, [orjson.dumps(said(slot))])
            await watch.time("append", self._send("append_yields", record, begun, slot + 1, flush))
        marker = {"summary": "They talked.", "first_kept": 2, "cleared": 2, "front": []}
        (first, ordinal), told = begun.window.marked(marker, 0)
        more = [*Outbox(Counter()).take(2, []), first, ordinal, orjson.dumps(told)]
        await watch.time("compact", self._send("mark_session", record, begun, 3, more))
        outbox = Outbox(Counter())
        outbox.put("run.completed", {})
        await self._send("settle_run", record, begun, 4, [*outbox.take(2, []), "completed", 0])

    def _send(
        self, script: str, record: str, begun: Begun, number: int, more: list[Any]
    ) -> Awaitable[Any]:
        return self.resources.link.run(script, [record], [begun.epoch, number, *more])

    async def _claim(self) -> Claim:
        """Claim the one run that waits."""
        keys = self.resources.keys
        names = [keys.queue("runs").queue, keys.workers("runs")]
        arguments: list[Part] = ["bench", 60_000, time.monotonic_ns(), 1, 1, 0, 1]
        [job], *_ = await self.resources.link.run("claim", names, arguments)
        _, job_id, _, token, lapses, taken_over, *_ = job
        return Claim(
            job_id=job_id.decode(),
            queue=names[0],
            token=token.decode(),
            lapses=lapses,
            taken_over=bool(taken_over),
            worker_id="bench",
        )


async def measured(open_talk: Callable[[str], Talk], steps: int) -> dict[str, Any]:
    """Take steps in a short session and in a long one, in turn, and compare them."""
    talks = {length: open_talk(f"s{length}") for length in (SHORT, LONG)}
    watches = {length: Watch() for length in talks}
    for length, talk in talks.items():
        await talk.fill(length)
        await talk.step(Watch())
    for number in range(steps):
        # Neither is always the one that comes first.
        for length in sorted(talks, reverse=bool(number % 2)):
            await talks[length].step(watches[length])
    found: dict[str, Any] = {}
    for name in STEP_NAMES:
        short, long = (spread(watches[length].took[name]) for length in (SHORT, LONG))
        ratio = round(long["p50"] / short["p50"], 3)
        found[name] = {f"ms_at_{SHORT}": short, f"ms_at_{LONG}": long, "ratio": ratio}
    return found


async def one_round(url: str, folder: Path, steps: int) -> dict[str, Any]:
    """Measure all places once, on an empty server and in an empty folder."""
    memory, files = MemorySessions(), FileSessions(folder)
    settings = Settings.from_env({"LOOPMILL_REDIS_URL": url})
    async with open_resources(settings) as resources:
        return {
            "memory": await measured(lambda name: KitTalk(memory, name), steps),
            "files": await measured(lambda name: KitTalk(files, name), steps),
            "server": await measured(lambda name: ServerTalk(resources, name), steps),
        }


def report(figures: dict[str, Any]) -> None:
    """Print the figures, and add the worst ratio of each place."""
    rows: list[list[object]] = [["", "", f"{SHORT}: p50 ms", f"{LONG}: p50 ms", "ratio"]]
    for place in ("memory", "files", "server"):
        found = figures[place]
        for name in STEP_NAMES:
            one = found[name]
            both = (one[f"ms_at_{length}"]["p50"] for length in (SHORT, LONG))
            rows.append([place, name, *both, one["ratio"]])
        found["worst"] = max(found[name]["ratio"] for name in STEP_NAMES)
    show("one step in a session", rows)


def main() -> None:
    """Measure, print and keep the figures."""
    given = arguments("sessions")
    logging.disable(logging.WARNING)
    steps = 20 if given.quick else STEPS
    with open_server() as (url, _):
        probe = Probe(url)
        server, rounds = probe.version(), []
        for _ in range(given.rounds):
            probe.client.flushall()
            with tempfile.TemporaryDirectory(prefix="loopmill-sessions-") as folder:
                rounds.append(run(one_round(url, Path(folder), steps)))
    merged = medians(rounds)
    figures = {**machine(), "server_version": server, "rounds": given.rounds, **merged}
    report(figures)
    keep("sessions", figures, quick=given.quick)


if __name__ == "__main__":
    main()
