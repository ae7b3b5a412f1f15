"""Runs that are killed at an event, and what must be the same as without the kill."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from loops.errors import AlreadySettled
from loops.question import Answer
from loops.tasks import Owner
from loops.wire import RUNTIME_TYPES
from tests.effects import VARIABLE, effects_in, read_effects
from tests.fleet import Fleet, Member
from worker.event_log import TERMINAL_EVENTS, LogEvent, decode_message
from worker.new_run import NewRun
from worker.resources import Resources, open_resources
from worker.retrying import Changes
from worker.run_record import RunRecord
from worker.settings import Settings

TENANT = "default"
LEASE = {"LOOPMILL_LEASE": "1s", "LOOPMILL_PARK_AFTER": "100ms"}
SETTLED_WITHIN = timedelta(seconds=25)


@dataclass
class Seen:
    """What a subscriber saw that stayed: by pub/sub, and by the log where that has a gap."""

    events: list[LogEvent] = field(default_factory=list[LogEvent])

    @property
    def last(self) -> int:
        return self.events[-1].seq if self.events else 0


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    status: str
    output: str | None
    attempts: int
    history: list[dict[str, Any]]
    view: list[str]
    """What a client shows in the end, in no order."""
    effects: Counter[str]
    is_cut: bool
    """Whether a turn was cut between its first call and its end, or a tool was lost."""


Moment = Callable[[list[LogEvent]], bool]
"""Looks at the events so far, the newest last, and says whether now is the time."""


def never(events: list[LogEvent]) -> bool:
    """Say that there is no such moment."""
    return not events


class Stage:
    """Two run workers and a tool worker on one server, and runs that are watched."""

    def __init__(self, fleet: Fleet, resources: Resources, effects: Path) -> None:
        self.fleet = fleet
        self.resources = resources
        self.effects = effects
        self.runs: list[Member] = []
        self.tools: list[Member] = []
        self.killed_at = 0.0

    def man(self) -> None:
        """See to it that two run workers and one tool worker serve."""
        self.runs = [member for member in self.runs if member.is_alive]
        self.tools = [member for member in self.tools if member.is_alive]
        new = [self.fleet.start("worker", "runs") for _ in range(2 - len(self.runs))]
        new_tools = [self.fleet.start("worker", "tools") for _ in range(1 - len(self.tools))]
        for member in [*new, *new_tools]:
            self.fleet.wait(member)
        self.runs += new
        self.tools += new_tools

    async def submit(
        self, agent: str, said: str = "write the report", *, session_id: str | None = None
    ) -> str:
        message = {"role": "user", "content": said}
        created = await self.resources.runs.create(
            TENANT, NewRun(agent, [message], session_id=session_id)
        )
        return created.run_id

    async def through(
        self,
        agent: str,
        *,
        kill_at: int | None = None,
        kill_when: Moment = never,
        says: str = "",
        retries: bool = False,
    ) -> tuple[Outcome, int]:
        """See a run through, its worker killed at a moment; return its outcome, and its length.

        With `says` that is said to the run when its first tool has started; with `retries` it is
        one that goes on with the work of another one, which failed.
        """
        run_id = await (self.begin_again(agent) if retries else self.submit(agent))
        strike, owner = self.striker(kill_at, kill_when), Owner()

        has_said: list[LogEvent] = []

        def on_event(event: LogEvent) -> None:
            if event.type == "hook.opened":
                owner.start(self.grant(run_id, event.data["label"]), name="grant")
            if says and event.type == "tool.started" and not has_said:
                has_said.append(event)
                owner.start(self.say(run_id, says), name="say")
            strike(event)

        async with asyncio.timeout(SETTLED_WITHIN.total_seconds()):
            seen = await self.watch(run_id, on_event)
        await owner.join()
        return await self.outcome(run_id, seen), len(seen.events)

    async def grant(self, run_id: str, label: str) -> None:
        """Say yes to whatever a hook asks, as somebody would over HTTP."""
        hooks = self.resources.hooks
        hook = await hooks.load(TENANT, run_id, label)
        yes = {"granted": True} if label.startswith("approve") else {"go": True}
        with suppress(AlreadySettled):
            await hooks.close(TENANT, hook, Answer("resolved", yes))

    async def begin_again(self, agent: str) -> str:
        """Let a run fail, and return the one that goes on with its work."""
        failed = await self.submit(agent)
        async with asyncio.timeout(SETTLED_WITHIN.total_seconds()):
            await self.watch(failed, lambda _: None)
        return (await self.resources.runs.retry(TENANT, failed, Changes())).run_id

    async def say(self, run_id: str, text: str) -> None:
        """Say something to the run, as somebody would over HTTP."""
        await self.resources.runs.steer(TENANT, run_id, [{"role": "user", "content": text}])

    def striker(self, at: int | None, when: Moment) -> Callable[[LogEvent], None]:
        """Return what kills the run's worker, once, when the moment is there."""
        so_far: list[LogEvent] = []
        struck: list[Member] = []

        def strike(event: LogEvent) -> None:
            so_far.append(event)
            if not struck and (event.seq == at or when(so_far)):
                victim = self.owner(so_far)
                assert victim is not None, "nobody drives the run"
                self.killed_at = time.time()
                victim.kill()
                struck.append(victim)

        return strike

    async def watch(
        self,
        run_id: str,
        on_event: Callable[[LogEvent], None],
        *,
        until: frozenset[str] = TERMINAL_EVENTS,
    ) -> Seen:
        """Follow a run to its end as any Redis client may: the channel first, then the log."""
        seen, keys = Seen(), self.resources.keys.run(TENANT, run_id)

        def ended() -> bool:
            return bool(seen.events) and seen.events[-1].type in until

        def take(events: list[LogEvent]) -> None:
            for event in events:
                if event.seq > seen.last and not ended():
                    assert event.seq == seen.last + 1, f"a gap before {event.seq}"
                    seen.events.append(event)
                    on_event(event)

        async with self.resources.link.client.pubsub() as subscription:
            await subscription.subscribe(keys.log)
            while not ended():
                message = await subscription.get_message(
                    ignore_subscribe_messages=False, timeout=0.25
                )
                events = None
                if message is not None and message["type"] == "message":
                    first, _, events = decode_message(message["data"])
                    events = events if first <= seen.last + 1 else None
                if events is None:
                    events = await self.resources.log.read(keys, after=seen.last)
                take(events)
        return seen

    def marks(self, run_id: str) -> list[str]:
        """Return what the run's tools have done to the world, in order."""
        return [name for key, name in read_effects(self.effects) if key.startswith(run_id)]

    async def until(self, run_id: str, *types: str) -> list[LogEvent]:
        """Follow a run until an event of one of the types, or its end; return its events."""
        async with asyncio.timeout(SETTLED_WITHIN.total_seconds()):
            seen = await self.watch(
                run_id, lambda _: None, until=TERMINAL_EVENTS | frozenset(types)
            )
        return seen.events

    async def run(self, run_id: str) -> RunRecord:
        """Return the run as it stands."""
        return await self.resources.runs.load(TENANT, run_id)

    async def forget_all(self) -> None:
        """Empty the server: its workers are gone, and nobody asks for their runs any more."""
        await self.resources.link.command("FLUSHALL")

    def owner(self, seen: list[LogEvent]) -> Member | None:
        """Return the process of the worker that drives the run, by what the log says of it."""
        named = [e.data["worker"] for e in seen if e.type.startswith("run.") and "worker" in e.data]
        return next(
            (m for m in self.runs if named and any(named[-1] in line for line in m.lines)), None
        )

    async def outcome(self, run_id: str, seen: Seen) -> Outcome:
        run = await self.resources.runs.load(TENANT, run_id)
        stored = await self.resources.sessions.messages(TENANT, run.session_id, limit=1000)
        family = (run_id, *(e.data["run"] for e in seen.events if e.type == "child.started"))
        if run.retry_of:
            family = (*family, run.origin)
        keys = [key for key, _ in read_effects(self.effects) if key.startswith(family)]
        cut = any(e.type == "tool.lost" or e.data.get("stop_reason") == "cut" for e in seen.events)
        return Outcome(
            run.status,
            run.output,
            run.attempt,
            [plain_message(message.message) for message in stored],
            sorted(view_of(seen.events)),
            Counter(keys),
            cut,
        )


@asynccontextmanager
async def stage_on(
    url: str, folder: Path, *, app: str, environment: dict[str, str]
) -> AsyncIterator[Stage]:
    """Open a stage on a server; its processes end with it, its tools leave marks in the folder."""
    effects = effects_in(folder)
    fleet = Fleet(url, app=app, environment={**environment, VARIABLE: str(effects)})
    settings = Settings.from_env({"LOOPMILL_REDIS_URL": url, **environment})
    try:
        async with open_resources(settings) as resources:
            yield Stage(fleet, resources, effects)
    finally:
        fleet.close()


def plain_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the results in the order of their text: tools end in any order."""
    content = message["content"]
    if not isinstance(content, list):
        return message
    plain = [{k: v for k, v in block.items() if k not in {"call", "id"}} for block in content]
    results = all(block["type"] == "tool_result" for block in plain)
    for block in plain:
        block.pop("tool_use_id", None)
    ordered = sorted(plain, key=lambda b: json.dumps(b, sort_keys=True)) if results else plain
    return {"role": message["role"], "content": ordered}


def view_of(events: list[LogEvent]) -> list[str]:
    """Fold a log into what a client shows: the yields, without those that were voided later.

    Deltas are put together, since a flush may fall anywhere.
    """
    shown: list[LogEvent] = []
    for event in events:
        if event.type == "turn.reset":
            shown = [one for one in shown if one.seq <= event.data["after"]]
        elif event.type not in RUNTIME_TYPES:
            shown.append(event)
    rows: list[str] = []
    texts: dict[tuple[Any, ...], str] = {}
    for event in shown:
        if event.type.endswith(".delta"):
            place = (event.type, event.turn, event.data["block"])
            texts[place] = texts.get(place, "") + event.data["text"]
        else:
            rows.append(json.dumps([event.type, event.data], sort_keys=True))
    return rows + [f"{place} {text}" for place, text in texts.items()]
