"""What must hold of everything in Redis, whatever happened: checked after every test.

Reads all runs of all tenants and holds them against the promises: numbered events without a gap,
one terminal event and it last, status and log at one, no second start of a tool that may not start
twice and no effect without a start, a job for each open run, one result for each call in every
session, nothing left behind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import orjson
import redis

from loops.history import inspect
from loops.messages import Messages
from worker.event_log import TERMINAL_EVENTS
from worker.keys import stays
from worker.run_record import MOVES, TERMINAL, RunStatus

_RUN = re.compile(rb"([^:]+):([^:@]+):run:(run_[^:]+)")
_SESSION = re.compile(rb"([^:]+):([^:@]+):session:([^:]+)")
_LAW = {"unanswered_call", "orphan_result", "misplaced_result"}

STATUS_AFTER = {
    "run.queued": RunStatus.QUEUED,
    "run.started": RunStatus.RUNNING,
    "run.resumed": RunStatus.RUNNING,
    "run.retrying": RunStatus.RUNNING,
    "run.waiting": RunStatus.WAITING,
    "run.completed": RunStatus.COMPLETED,
    "run.failed": RunStatus.FAILED,
    "run.cancelled": RunStatus.CANCELLED,
    "run.expired": RunStatus.EXPIRED,
}


Effects = Mapping[tuple[str, str], int]


@dataclass
class Broken:
    """What does not hold, in sentences."""

    found: list[str] = field(default_factory=list[str])

    def unless(self, holds: object, sentence: str) -> None:
        if not holds:
            self.found.append(sentence)


def broken_invariants(client: redis.Redis, effects: Effects = MappingProxyType({})) -> list[str]:
    """Return every broken promise of what stands in the server; none is what is wanted.

    `effects` tells what tools did to the world: how often, by idempotency key and name.
    """
    broken = Broken()
    names = cast("list[bytes]", list(client.scan_iter(count=1000)))
    forever = [name for name in names if client.pttl(name) == -1 and not stays(name.decode())]
    broken.unless(not forever, f"keys without a time to live: {forever}")
    for name in names:
        if _RUN.fullmatch(name) and client.type(name) == b"hash":
            _check_run(client, name, broken)
            _check_effects(client, name, effects, broken)
        if _SESSION.fullmatch(name) and client.type(name) == b"hash":
            _check_session(client, name, broken)
    return broken.found


def log_of(client: redis.Redis, record: bytes) -> list[dict[str, Any]]:
    """Return the run's events, each with its seq and attempt."""
    events: list[dict[str, Any]] = []
    for entry_id, fields in cast("Any", client.xrange(record + b":log")):
        told = orjson.loads(fields[b"events"])
        last = int(entry_id.partition(b"-")[0])
        for seq, event in enumerate(told, last - len(told) + 1):
            events.append({"seq": seq, "attempt": int(fields[b"attempt"]), **event})
    return events


def _check_run(client: redis.Redis, name: bytes, broken: Broken) -> None:
    run = cast("dict[bytes, bytes]", client.hgetall(name))
    events = log_of(client, name)
    said = f"{name.decode()}: "
    cut, last = int(run.get(b"cut", 0)), int(run[b"last_seq"])
    seqs = [event["seq"] for event in events]
    broken.unless(seqs == list(range(cut + 1, last + 1)), f"{said}seqs {seqs[:3]}…, cut {cut}")
    attempts = [event["attempt"] for event in events]
    broken.unless(attempts == sorted(attempts), f"{said}attempts go back")
    broken.unless(int(run[b"attempt"]) <= int(run[b"epoch"]) + 1, f"{said}attempt above epoch")
    status = RunStatus(run[b"status"].decode())
    terminal = [event for event in events if event["type"] in TERMINAL_EVENTS]
    broken.unless(len(terminal) <= 1, f"{said}{len(terminal)} terminal events")
    if status in TERMINAL:
        is_last = bool(terminal) and terminal[0] is events[-1]
        broken.unless(is_last, f"{said}{status} without its event as the last one")
        told = terminal[0]["type"] if terminal else None
        broken.unless(told == f"run.{status}", f"{said}{status} but the log says {told}")
        _check_nothing_left(client, run, said, broken)
    else:
        broken.unless(not terminal, f"{said}{status} with a terminal event")
        _check_is_awaited(client, run, said, broken)
    _check_moves(events, said, broken)
    _check_hooks(client, name, run, said, broken)
    _check_calls(client, name, events, said, broken)


def _check_nothing_left(
    client: redis.Redis, run: dict[bytes, bytes], said: str, broken: Broken
) -> None:
    queue, job = run[b"queue_key"], run[b"job"]
    left = [
        client.zscore(queue, job),
        client.zscore(queue + b":claims", job),
        client.hget(queue + b":tokens", cast("str", job)),
        client.hget(queue + b":lapses", cast("str", job)),
        client.get(b"arq:job:" + job),
    ]
    broken.unless(not any(left), f"{said}settled, and its job is left: {left}")
    owner = cast("bytes | None", client.hget(run[b"session_key"].decode(), "owner"))
    broken.unless(owner != run[b"id"], f"{said}settled, and it still owns its session")


def _check_hooks(
    client: redis.Redis, name: bytes, run: dict[bytes, bytes], said: str, broken: Broken
) -> None:
    """An open hook is listed and will end; one of a run that has ended is not open."""
    hooks = cast("dict[bytes, bytes]", client.hgetall(name + b":hooks"))
    is_open = [
        key[:-6] for key, state in hooks.items() if (key[-6:], state) == (b"|state", b"open")
    ]
    if run[b"status"].decode() in TERMINAL:
        broken.unless(not is_open, f"{said}ended, with open hooks {is_open}")
    listed = set(cast("list[bytes]", client.zrange(run[b"hooks_key"].decode(), 0, -1)))
    own = {member for member in listed if member.startswith(run[b"id"] + b" ")}
    labelled = {run[b"id"] + b" " + key for key in is_open if hooks[key + b"|told"]}
    broken.unless(own == labelled, f"{said}open hooks {labelled}, listed {own}")
    # A child ends by itself.
    ends = [int(hooks[key + b"|ends"]) for key in is_open if not key.startswith(b"child:")]
    rings = client.zscore(run[b"timers_key"], name)
    is_timed = not ends or (rings is not None and float(rings) <= min(ends))
    broken.unless(is_timed, f"{said}a hook ends at {ends}, the timer rings at {rings}")


def _check_is_awaited(
    client: redis.Redis, run: dict[bytes, bytes], said: str, broken: Broken
) -> None:
    """An accepted run is never lost: a queue, a claim, its session's line or an answer has it."""
    if run[b"status"] == b"waiting":
        return
    queue, job = run[b"queue_key"], run[b"job"]
    line = f"{run[b'session_key'].decode()}:queue"
    places = [
        client.zscore(queue, job),
        client.zscore(queue + b":claims", job),
        client.lpos(line, run[b"id"].decode()),
    ]
    found = any(place is not None for place in places)
    broken.unless(found, f"{said}{run[b'status'].decode()}, and nothing will drive it")


def _check_moves(events: list[dict[str, Any]], said: str, broken: Broken) -> None:
    before: RunStatus | None = None
    for event in events:
        after = STATUS_AFTER.get(event["type"])
        if after is None:
            continue
        # A hand-back and an answer queue a run without an event of their own.
        queued = before in {RunStatus.RUNNING, RunStatus.WAITING} and after is RunStatus.RUNNING
        legal = before is None or before is after or queued or after in MOVES[before]
        broken.unless(legal, f"{said}moved from {before} to {after}")
        before = after


def _check_calls(
    client: redis.Redis, name: bytes, events: list[dict[str, Any]], said: str, broken: Broken
) -> None:
    fields = cast("dict[bytes, bytes]", client.hgetall(name + b":calls"))
    started = Counter(e["data"]["call"] for e in events if e["type"] == "tool.started")
    queued = Counter(e["data"]["call"] for e in events if e["type"] == "tool.queued")
    cut = int(cast("bytes", client.hget(name.decode(), "cut") or b"0"))
    # What a run has taken over from another one, that one has done.
    has_earlier = client.hexists(name.decode(), "retry_of")
    for field_name, state in fields.items():
        key, _, kind = field_name.decode().rpartition("|")
        if kind != "state":
            continue
        if has_earlier and not queued[key]:
            continue
        again, attempts = (fields[f"{key}|{n}".encode()] for n in ("again", "attempts"))
        broken.unless(cut or queued[key] == 1, f"{said}{key} was queued {queued[key]} times")
        broken.unless(
            cut or started[key] == int(attempts), f"{said}{key}: {started[key]} starts, {attempts=}"
        )
        broken.unless(
            again == b"1" or started[key] <= 1, f"{said}{key} started {started[key]} times"
        )
        answered = f"{key}|result".encode() in fields
        broken.unless(
            state in {b"queued", b"started", b"cancelled"} or answered,
            f"{said}{key} is {state!r} without a result",
        )


def _check_effects(client: redis.Redis, name: bytes, effects: Effects, broken: Broken) -> None:
    """A started call has an effect once at most, another only by another start."""
    run_id = name.decode().rpartition(":")[2]
    for (key, effect), count in effects.items():
        of_run, _, call = key.partition(":")
        if of_run != run_id:
            continue
        starts = sum(_starts(client, one, call) for one in _family(client, name))
        broken.unless(count <= starts, f"{key}: {count} times {effect!r} in {starts} starts")


def _starts(client: redis.Redis, name: bytes, call: str) -> int:
    told = cast("bytes | None", client.hget(f"{name.decode()}:calls", f"{call}|attempts"))
    return int(told or 0)


def _family(client: redis.Redis, name: bytes) -> list[bytes]:
    """Return the run, and those that went on with its work."""
    before, _, run_id = name.rpartition(b":")
    others = cast("list[bytes]", client.keys(before.decode() + ":*"))
    records = [other for other in others if b":" not in other[len(before) + 1 :]]
    return [name, *(one for one in records if client.hget(one.decode(), "origin") == run_id)]


def _check_session(client: redis.Redis, name: bytes, broken: Broken) -> None:
    raw = cast("list[bytes]", client.lrange((name + b":messages").decode(), 0, -1))
    owner = client.hget(name.decode(), "owner")
    history = Messages.of([orjson.loads(message) for message in raw])
    if owner is None:
        issues = [issue for issue in inspect(history) if issue.kind in _LAW]
        broken.unless(not issues, f"{name.decode()}: {issues}")
