"""A run that somebody asks for, and its receipt. Planned here, made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import time
from typing import Any, Literal

import orjson

from .keys import Keys
from .payloads import encode_job
from .run_record import RunStatus
from .settings import Settings
from .wire import Part

RUNS_QUEUE = "runs"
"""The queue of interactive runs."""

NEEDED_QUEUES = (RUNS_QUEUE, "runs:batch", "tools")
"""The queues that every fleet serves; others are those that tools name."""

PATIENCE = timedelta(days=7)
"""How long an accepted run may stay queued before it expires unstarted."""

IDEMPOTENCY = timedelta(hours=24)
"""How long the answer to an idempotency key is kept."""

SESSION_RETENTION = timedelta(days=30)
"""How long a session is kept after its last use."""


OnConflict = Literal["enqueue", "reject", "interrupt", "rollback", "steer"]


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that starts a child."""

    run_id: str
    key: str
    """By which it knows the child."""
    nesting: int
    """How many runs are around it."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a caller asks for."""

    agent: str
    messages: Sequence[dict[str, Any]]
    """The input, as plain messages in Anthropic's shape."""
    session_id: str | None = None
    on_conflict: OnConflict | None = None
    """What becomes of it when the session has a run: it waits for that one, is refused, ends it,
    ends it and lets the session forget it, or is said to it. None is to wait, unless that run waits
    for a hook."""
    timeout: timedelta | None = None
    """The limit of its running time; None for the configured one. Waiting does not count."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    budget: dict[str, Any] | None = None
    """How much it may take, limit by limit; None for what its agent may."""
    idempotency: tuple[str, str] | None = None
    """Digests of the idempotency key and of the request's body."""
    traceparent: str | None = None
    parent: Parent | None = None
    """The run that starts it and waits for it, where it is a child."""
    retry_of: str | None = None
    """The run with whose work it goes on."""
    patience: timedelta = PATIENCE
    """How long it may stay queued before it expires unstarted."""
    content_retention: timedelta | None = None
    """How long all of it but its record is kept after its end, its session too; None for as long as
    the record, and the session for longer."""
    origin: str | None = None
    """The first of the runs of which each went on with the work of the one before."""


@dataclass(frozen=True, slots=True)
class Created:
    """The receipt of an accepted run."""

    run_id: str
    session_id: str
    status: RunStatus
    is_new: bool
    """False when the same request had been accepted before under its idempotency key."""


@dataclass(frozen=True, slots=True)
class NewPlace:
    """Where a new run will live."""

    tenant: str
    run_id: str
    session_id: str


def plan_run(
    keys: Keys, settings: Settings, place: NewPlace, new: NewRun
) -> tuple[list[Part], list[Part]]:
    """Return keys and arguments of the script that accepts the run."""
    digest, body = new.idempotency or ("", "")
    names: list[Part] = [
        keys.run(place.tenant, place.run_id).record,
        keys.session(place.tenant, place.session_id).record,
        keys.idempotency(place.tenant, digest) if digest else "",
        keys.runs(place.tenant),
        keys.sessions(place.tenant),
        keys.queues,
        keys.tenants,
    ]
    arguments: list[Part] = [
        place.run_id,
        place.session_id,
        new.on_conflict or "",
        settings.queue_depth,
        body,
        milliseconds(IDEMPOTENCY),
        orjson.dumps([{"type": "run.queued", "data": {"agent": new.agent}}]),
        RUNS_QUEUE,
        milliseconds(SESSION_RETENTION),
        "{}",
        orjson.dumps(list(new.messages)),
        place.tenant,
        *(part for pair in _fields(keys, settings, place, new).items() for part in pair),
    ]
    return names, arguments


def _fields(keys: Keys, settings: Settings, place: NewPlace, new: NewRun) -> dict[str, Part]:
    arguments = [place.tenant, place.run_id, new.agent]
    fields: dict[str, Part] = {
        "v": 1,
        "id": place.run_id,
        "tenant": place.tenant,
        "session": place.session_id,
        "agent": new.agent,
        "metadata": orjson.dumps(new.metadata),
        "timeout": milliseconds(settings.run_timeout if new.timeout is None else new.timeout),
        "retention": milliseconds(settings.retention),
        "patience": milliseconds(new.patience),
        "queue_key": keys.queue(RUNS_QUEUE).queue,
        "job": keys.run_job(place.tenant, place.run_id),
        "payload": encode_job("drive_run", arguments, enqueued=round(time() * 1000)),
        "hooks_key": keys.hooks(place.tenant),
        "timers_key": keys.timers,
        "run_base": keys.run(place.tenant, "").record,
    }
    if new.budget is not None:
        fields["budget"] = orjson.dumps(new.budget)
    if new.content_retention is not None:
        fields["content_retention"] = milliseconds(new.content_retention)
    if new.traceparent is not None:
        fields["traceparent"] = new.traceparent
    if new.retry_of is not None and new.origin is not None:
        fields["retry_of"], fields["origin"] = new.retry_of, new.origin
    if new.parent is not None:
        fields["parent"] = keys.run(place.tenant, new.parent.run_id).record
        fields["parent_id"] = new.parent.run_id
        fields["parent_key"] = new.parent.key
        fields["nesting"] = new.parent.nesting + 1
    return fields


def milliseconds(duration: timedelta) -> int:
    """Return a duration as Redis takes it."""
    return duration // timedelta(milliseconds=1)
