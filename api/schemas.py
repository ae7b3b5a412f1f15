"""What goes over the border: requests, strictly read, and the answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, Tag

from worker.keys import NAME
from worker.new_run import Created, OnConflict
from worker.run_record import CallRecord, RunFailure, RunRecord, RunStatus
from worker.runs import CancelReceipt
from worker.sessions import SessionRecord

from .content import LISTED, TEXT, Block, either

NAME_PATTERN = f"^{NAME.pattern}$"
MESSAGES = 1000
"""How many messages the input of a run may hold."""

SHORTEST, LONGEST = 0.001, 30 * 86400.0
"""Seconds of running time that a run may ask for."""

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=64)],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=16),
]


class Body(BaseModel):
    """A request's content: nothing in it is unknown, nothing is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class InputMessage(Body):
    """A message of the input, in Anthropic's shape."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[
        Annotated[str, Tag(TEXT)] | Annotated[list[Block], Tag(LISTED)], either("blocks")
    ]


class BudgetRequest(Body):
    """How much a run may take; each limit is optional."""

    turns: Annotated[int, Field(gt=0)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    usd: Annotated[float, Field(gt=0)] | None = None
    tool_calls: Annotated[int, Field(gt=0)] | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None


class RunRequest(Body):
    """The content of `POST /v1/runs`.

    The input's messages need not make a whole history: calls without results and results without
    calls are mended when the messages are sent to a model, since a session may hold the other half.
    """

    agent: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: Annotated[
        Annotated[str, StringConstraints(min_length=1), Tag(TEXT)]
        | Annotated[list[InputMessage], Field(min_length=1, max_length=MESSAGES), Tag(LISTED)],
        either("messages"),
    ]
    session_id: Name | None = None
    on_conflict: OnConflict | None = None
    timeout: Annotated[float, Field(ge=SHORTEST, le=LONGEST)] | None = None
    """Seconds of running time."""
    budget: BudgetRequest | None = None
    metadata: Metadata = Field(default_factory=dict)
    stream: bool = False

    def messages(self) -> list[dict[str, Any]]:
        """Return the input as plain messages."""
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        return [message.model_dump() for message in self.input]

    @property
    def time_limit(self) -> timedelta | None:
        """The limit of the run's running time, None for the configured one."""
        return None if self.timeout is None else timedelta(seconds=self.timeout)


class CallAnswer(Body):
    """The content of `POST /v1/runs/{id}/calls/{call}/result`."""

    content: Any
    """What the model reads: text, or any JSON."""


class SessionRequest(Body):
    """The content of `POST /v1/sessions`."""

    id: Name | None = None
    metadata: Metadata = Field(default_factory=dict)


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
    metadata: dict[str, Any]
    last_seq: int

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
