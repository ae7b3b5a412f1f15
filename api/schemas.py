"""What is answered over the border."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from worker.new_run import Created
from worker.run_record import CallRecord, RunFailure, RunRecord, RunStatus
from worker.runs import CancelReceipt
from worker.sessions import SessionRecord


class View(BaseModel):
    """An answer's content."""

    model_config = ConfigDict(frozen=True)


class Links(View):
    """Where to go on from a run."""

    self: str
    events: str
    result: str
    cancel: str
    calls: str
    input: str
    retry: str

    @classmethod
    def of(cls, run_id: str) -> Self:
        """Return a run's links."""
        path = f"/v1/runs/{run_id}"
        return cls(
            self=path,
            events=f"{path}/events",
            result=f"{path}/result",
            cancel=f"{path}/cancel",
            calls=f"{path}/calls",
            input=f"{path}/input",
            retry=f"{path}/retry",
        )


class Accepted(View):
    """The receipt of an accepted run."""

    id: str
    session_id: str
    status: RunStatus
    links: Links

    @classmethod
    def of(cls, created: Created) -> Self:
        """Return the receipt."""
        return cls(
            id=created.run_id,
            session_id=created.session_id,
            status=created.status,
            links=Links.of(created.run_id),
        )


class RunView(View):
    """A run, as it stands."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: str
    session_id: str
    agent: str
    status: RunStatus
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    output: str | None
    error: RunFailure | None
    usage: dict[str, Any] | None
    turns: list[dict[str, Any]]
    """What each reply was, once the run has ended: model, stop_reason, usage; the last 100."""
    metadata: dict[str, Any]
    last_seq: int
    parent_id: str | None
    """The run that started this one and waits for it."""
    retry_of: str | None
    """The run with whose work it goes on."""

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """Return what everybody may see of the record."""
        return cls.model_validate(record)


class RunList(View):
    """A page of runs, newest first."""

    runs: list[RunView]
    next: str | None
    """The `before` of the next page, null at the end."""


class Result(View):
    """What came out of a run; an output only once it has ended."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: str
    status: RunStatus
    output: str | None
    error: RunFailure | None
    usage: dict[str, Any] | None


class Cancelled(View):
    """What a cancel did."""

    id: str
    status: RunStatus
    is_settled: bool
    """False while the run is stopping."""
    stopping: list[str]
    """Calls that run now and were told to stop; a synchronous tool cannot be stopped."""
    cancelled_calls: list[str]
    """Calls that never start."""

    @classmethod
    def of(cls, run_id: str, receipt: CancelReceipt) -> Self:
        """Return the receipt."""
        return cls(
            id=run_id,
            status=receipt.status,
            is_settled=receipt.is_settled,
            stopping=receipt.stopping,
            cancelled_calls=receipt.cancelled_calls,
        )


class CallList(View):
    """A run's ledger of side effects."""

    calls: Sequence[CallRecord]


class TicketView(View):
    """The right to follow one run without a header."""

    ticket: str
    url: str
    expires_at: datetime


class SessionView(View):
    """A session, as it stands."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: str
    created_at: datetime
    used_at: datetime
    metadata: dict[str, Any]
    length: int
    owner: str | None
    waiting: int

    @classmethod
    def of(cls, record: SessionRecord) -> Self:
        """Return what everybody may see of the record."""
        return cls.model_validate(record)


class SessionList(View):
    """A page of sessions, last used first."""

    sessions: list[SessionView]
    next: str | None


class MessageView(View):
    """A message of a session, with its place."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    index: int
    message: dict[str, Any]


class MessageList(View):
    """A page of a session's messages."""

    messages: list[MessageView]
    next: int
    """The `after` of the next page."""
