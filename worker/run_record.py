"""What is known of a run: its status and the legal moves, its record, the ledger of its calls.

Stored as one hash, changed by scripts alone; a record here is a copy, and knows no store.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from loops.redact import hide


class RunStatus(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


TERMINAL = frozenset(
    {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED}
)
"""The statuses after which nothing changes any more."""

MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: TERMINAL | {RunStatus.RUNNING},
    RunStatus.RUNNING: TERMINAL | {RunStatus.WAITING, RunStatus.QUEUED},
    RunStatus.WAITING: TERMINAL | {RunStatus.QUEUED},
    **{status: frozenset[RunStatus]() for status in TERMINAL},
}
"""Every legal move; an invariant of the log, held by the scripts' guards."""


class RunFailure(BaseModel):
    """Why a run did not complete."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str
    message: str


class RunRecord(BaseModel):
    """One run, as it stood when it was read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    tenant: str
    session_id: str
    agent: str
    status: RunStatus
    attempt: int
    epoch: int
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    output: str | None = None
    error: RunFailure | None = None
    usage: dict[str, Any] | None = None
    turns: list[dict[str, Any]] = []
    """What each reply was, once the run has ended: model, stop_reason, usage; the last 100."""
    metadata: dict[str, Any]
    last_seq: int
    cut: int = 0
    """The last seq that was cut from the log's head, 0 when the log is whole."""
    is_cancelling: bool = False
    budget: dict[str, Any] | None = None
    """How much the run may take, limit by limit; its agent's own limits hold besides."""
    timeout: timedelta
    ordinal: int
    """The run's number within its session, from 1."""
    parent_id: str | None = None
    """The run that started this one and waits for it."""
    nesting: int = 0
    """How many runs are around it."""
    retry_of: str | None = None
    """The run with whose work it goes on."""
    origin: str
    """The first of the runs of which each went on with the work of the one before; mostly itself.
    What tools do is known to others by it."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing about the run changes any more."""
        return self.status in TERMINAL


class CallRecord(BaseModel):
    """One line of the ledger of side effects."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    """Our own id of the call, unique in the run."""
    id: str
    """The provider's id: an attribute, since providers repeat and omit them."""
    name: str
    arguments: str
    """As they may be shown."""
    state: str
    """`queued`, `started`, `done`, `lost` or `cancelled`."""
    attempts: int
    idempotency_key: str
    worker: str | None = None
    is_idempotent: bool


def instant(milliseconds: bytes | None) -> datetime | None:
    """Return the time of a stored stamp."""
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC) if milliseconds else None


def pairs(flat: list[bytes]) -> dict[str, bytes]:
    """Return a hash as a script replies with it, as a mapping."""
    names = (name.decode() for name in flat[::2])
    return dict(zip(names, flat[1::2], strict=True))


def decode_run(fields: Mapping[str, bytes]) -> RunRecord:
    """Read a run's hash."""

    def loaded(name: str) -> Any:
        return orjson.loads(fields[name]) if fields.get(name) else None

    return RunRecord(
        id=fields["id"].decode(),
        tenant=fields["tenant"].decode(),
        session_id=fields["session"].decode(),
        agent=fields["agent"].decode(),
        status=RunStatus(fields["status"].decode()),
        attempt=int(fields["attempt"]),
        epoch=int(fields["epoch"]),
        created_at=datetime.fromtimestamp(int(fields["created"]) / 1000, UTC),
        started_at=instant(fields.get("started")),
        finished_at=instant(fields.get("finished")),
        output=fields["output"].decode() if "output" in fields else None,
        error=loaded("error"),
        usage=loaded("usage"),
        turns=loaded("turns") or [],
        metadata=loaded("metadata") or {},
        last_seq=int(fields["last_seq"]),
        cut=int(fields.get("cut", 0)),
        is_cancelling="cancel" in fields,
        budget=loaded("budget"),
        timeout=timedelta(milliseconds=int(fields["timeout"])),
        ordinal=int(fields["ordinal"]),
        parent_id=fields["parent_id"].decode() if "parent_id" in fields else None,
        nesting=int(fields.get("nesting", 0)),
        retry_of=fields["retry_of"].decode() if "retry_of" in fields else None,
        origin=fields.get("origin", fields["id"]).decode(),
    )


def decode_calls(origin: str, fields: Mapping[str, bytes]) -> list[CallRecord]:
    """Read a run's ledger, in the order in which its calls were started."""
    calls: dict[str, dict[str, bytes]] = {}
    for field, value in fields.items():
        key, _, name = field.rpartition("|")
        calls.setdefault(key, {})[name] = value
    return [_decode_call(origin, key, parts) for key, parts in calls.items() if "state" in parts]


def _decode_call(origin: str, key: str, parts: Mapping[str, bytes]) -> CallRecord:
    call = orjson.loads(parts["call"])
    worker, hides = parts.get("worker"), orjson.loads(parts.get("hides", b"false"))
    return CallRecord(
        key=key,
        id=call["id"],
        name=call["name"],
        arguments=hide(call["name"], call["arguments"], hides),
        state=parts["state"].decode(),
        attempts=int(parts["attempts"]),
        idempotency_key=f"{origin}:{key}",
        worker=worker.decode() if worker else None,
        is_idempotent=parts["again"] == b"1",
    )
