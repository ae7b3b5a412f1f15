"""Speaks the scripts of runs as their owners do, one call at a time, on whatever server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from loops.events import Event
from loops.messages import ToolCall, ToolResult
from tests.worker.workshop import settings
from worker.begin import Begun, NotBegun, begin
from worker.calls import RunPlace
from worker.carrying import NOTHING, counted
from worker.event_log import LogEvent
from worker.link import Link
from worker.new_run import NewPlace, NewRun, Parent, plan_run
from worker.outbox import Outbox
from worker.queue import Claim
from worker.resources import Resources, resources_over
from worker.wire import Part

TENANT = "acme"
LEASE = 60_000
USER = {"role": "user", "content": "go"}
ASSISTANT = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}


def flush(
    *yields: Event,
    opens: str = "",
    handed: Sequence[str] = (),
    slot: int = 0,
    messages: Sequence[dict[str, Any]] = (),
) -> list[Part]:
    """Return the arguments of a flush of these; `opens` is the key of a turn that it opens."""
    outbox = Outbox(Counter())
    if opens:
        outbox.put("turn.started", {"model": "m"}, turn=1, opens=opens)
    for event in yields:
        outbox.put_yield(event)
    for key in handed:
        outbox.put_handed(key)
    return outbox.take(slot, [orjson.dumps(message) for message in messages])


@dataclass
class Pass:
    """One pass of a run, as its scripts see it."""

    hands: Hands
    place: RunPlace
    claim: Claim
    begun: Begun
    number: int = 0

    async def send(
        self, script: str, flushed: list[Part] | None = None, *more: Part, number: int | None = None
    ) -> Any:
        """Send a script of the pass: the next one, unless a number is given."""
        if number is None:
            self.number += 1
            number = self.number
        arguments = [self.begun.epoch, number, *(flushed or flush()), *more]
        return await self.hands.link.run(script, [self.place.record], arguments)

    async def start_call(self, key: str = "turn:1.0", *, again: bool = False, **how: Any) -> Any:
        """Start a call of the tool `mail`."""
        keys, queue = self.place.keys, self.hands.resources.keys.queue("tools").queue
        job = keys.call_job(TENANT, self.place.run_id, key)
        call = ToolCall(id="call_0", key=key, name="mail", arguments="{}")
        told: dict[str, Any] = {"type": "tool.queued", "data": {"call": key}}
        flushed = how.pop("flushed", None)
        turn, part, length = how.pop("part", ("", b"", 0))
        told_call = orjson.dumps({name: getattr(call, name) for name in call.__slots__})
        more = [key, turn, part, length, queue, job, b"{}", told_call, int(again)]
        return await self.send(
            "start_call", flushed, *more, orjson.dumps([told]), "tools", keys.queues, "", "", **how
        )

    async def settle(
        self,
        status: str = "completed",
        *,
        messages: Sequence[dict[str, Any]] = (),
        number: int | None = None,
        **fields: Any,
    ) -> Any:
        """Settle the run, with its terminal event."""
        outbox = Outbox(Counter())
        outbox.put(f"run.{status}", {})
        flushed = outbox.take(0, [orjson.dumps(message) for message in messages])
        pairs = [part for pair in fields.items() for part in pair]
        return await self.send("settle_run", flushed, status, 0, *pairs, number=number)

    async def open_child(self, key: str = "child:other:x:0", **how: Any) -> Any:
        """Start a child run."""
        resources, run = self.hands.resources, self.begun.run
        parent = Parent(run.id, key, run.nesting)
        new = NewRun("other", [USER], parent=parent)
        place = NewPlace(TENANT, f"{run.id}_child", f"{run.session_id}_child")
        names, arguments = plan_run(resources.keys, resources.settings, place, new)
        told = orjson.dumps([{"type": "child.started", "data": {"run": place.run_id}}])
        flushed = how.pop("f", None)
        more: list[Part] = [key, told, *counted([names, arguments, *NOTHING])]
        return await self.send("open_child", flushed, *more, **how)

    async def park(self, *awaited: str, **how: Any) -> Any:
        """Park the run while it waits for these calls."""
        told = orjson.dumps([{"type": "run.waiting", "data": {}}])
        return await self.send("park", None, told, 0, len(awaited), *awaited, **how)


@dataclass
class ToolHand:
    """One claim of a call."""

    hands: Hands
    place: RunPlace
    claim: Claim
    key: str

    async def start(self) -> list[Any]:
        """Begin the call."""
        lost, poison = (ToolResult(self.key, "", "", text, is_error=True) for text in ("l", "p"))
        claim = self.claim
        arguments: list[Part] = [claim.queue, claim.job_id, claim.token, self.key, claim.worker_id]
        arguments += [f"t:@owner:{claim.worker_id}", 7, claim.lapses, 3]
        reply: list[Any] = await self.hands.link.run(
            "start_tool", [self.place.record], [*arguments, lost.encode(), poison.encode()]
        )
        return reply

    async def finish(self, content: Any = "sent", state: str = "done") -> int:
        """Record the result."""
        result = ToolResult(self.key, "call_0", "mail", content).encode()
        claim = self.claim
        code: int = await self.hands.link.run(
            "finish_tool",
            [self.place.record],
            [claim.queue, claim.job_id, claim.token, self.key, state, result, b""],
        )
        return code


@dataclass
class Hands:
    """A caller of the API and some workers, in one."""

    link: Link
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    tokens: int = 0

    def __post_init__(self) -> None:
        self.resources: Resources = resources_over(
            self.link, settings(namespace="t", **self.settings)
        )

    async def submit(self, agent: str = "triage", **new: Any) -> RunPlace:
        """Have a run accepted."""
        created = await self.resources.runs.create(TENANT, NewRun(agent, [USER], **new))
        return RunPlace(self.resources.keys, TENANT, created.run_id)

    async def claim(self, queue: str = "runs", worker_id: str = "w") -> Claim:
        """Claim the queue's first job."""
        keys, first = self.resources.keys, self.tokens + 1
        self.tokens += 1
        names = [keys.queue(queue).queue, keys.workers(queue)]
        arguments: list[Part] = [worker_id, LEASE, first, 1, 1, 0, 1]
        [job], *_ = await self.link.run("claim", names, arguments)
        _, job_id, _, token, lapses, taken_over, *_ = job
        return Claim(
            job_id=job_id.decode(),
            queue=names[0],
            token=token.decode(),
            lapses=lapses,
            taken_over=bool(taken_over),
            worker_id=worker_id,
        )

    async def begin(self, place: RunPlace, claim: Claim, reason: str = "") -> Begun | NotBegun:
        """Begin a pass."""
        resources = self.resources
        return await begin(
            resources.link, resources.keys, claim, run=(TENANT, place.run_id), reason=reason
        )

    async def drive(self, place: RunPlace, **how: Any) -> Pass:
        """Claim the run, which is the first in its queue, and begin a pass."""
        claim = await self.claim(**how)
        begun = await self.begin(place, claim)
        assert isinstance(begun, Begun), begun
        return Pass(self, place, claim, begun)

    async def lapse(self, claim: Claim) -> None:
        """Let the claim's lease be over."""
        await self.link.command("ZADD", f"{claim.queue}:claims", 1, claim.job_id)

    async def take_over(self, one: Pass, *, worker_id: str = "v") -> Pass:
        """Let the pass' claim lapse, and begin the next pass on another worker."""
        await self.lapse(one.claim)
        return await self.drive(one.place, worker_id=worker_id)

    async def take_call(self, place: RunPlace, key: str = "turn:1.0", **how: Any) -> ToolHand:
        """Claim the call that is the first in the queue of tools."""
        return ToolHand(self, place, await self.claim("tools", **how), key)

    async def log(self, place: RunPlace, *, after: int = 0) -> list[LogEvent]:
        """Return the run's events."""
        return await self.resources.log.read(
            place.keys.run(TENANT, place.run_id), after=after, limit=10_000
        )

    async def types(self, place: RunPlace) -> list[str]:
        """Return the types of the run's events."""
        return [event.type for event in await self.log(place)]

    async def field(self, place: RunPlace, name: str) -> bytes | None:
        """Return a field of the run's record."""
        found: bytes | None = await self.link.command("HGET", place.record, name)
        return found
