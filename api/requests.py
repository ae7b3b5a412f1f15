"""What is sent over the border: requests, strictly read; nothing in them is unknown."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, Tag

from worker.keys import NAME
from worker.new_run import OnConflict

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


Keys = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=100)
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


Input = Annotated[
    Annotated[str, StringConstraints(min_length=1), Tag(TEXT)]
    | Annotated[list[InputMessage], Field(min_length=1, max_length=MESSAGES), Tag(LISTED)],
    either("messages"),
]
"""What is said to a run: text, or messages."""


def messages_of(said: str | list[InputMessage]) -> list[dict[str, Any]]:
    """Return what is said as plain messages."""
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    return [message.model_dump() for message in said]


class Said(Body):
    """The content of `POST /v1/runs/{id}/input`."""

    input: Input


class RunRequest(Body):
    """The content of `POST /v1/runs`.

    The input's messages need not make a whole history: calls without results and results without
    calls are mended when the messages are sent to a model, since a session may hold the other half.
    """

    agent: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: Input
    session_id: Name | None = None
    on_conflict: OnConflict | None = None
    timeout: Annotated[float, Field(ge=SHORTEST, le=LONGEST)] | None = None
    """Seconds of running time."""
    budget: BudgetRequest | None = None
    metadata: Metadata = Field(default_factory=dict)
    approvals: Keys = Field(default_factory=list)
    """The keys of calls that wait in the session, and that a person grants."""
    declined: Keys = Field(default_factory=list)
    """The keys of those that a person refuses."""
    stream: bool = False


def as_duration(seconds: float | None) -> timedelta | None:
    """Return so many seconds as a duration."""
    return None if seconds is None else timedelta(seconds=seconds)


def limits_of(budget: BudgetRequest | None) -> dict[str, Any] | None:
    """Return the limits that a budget has, None where there is none."""
    return budget.model_dump(exclude_none=True) if budget else None


class RetryRequest(Body):
    """The content of `POST /v1/runs/{id}/retry`: what is otherwise than before."""

    timeout: Annotated[float, Field(ge=SHORTEST, le=LONGEST)] | None = None
    """Seconds of running time."""
    budget: BudgetRequest | None = None


class CallAnswer(Body):
    """The content of `POST /v1/runs/{id}/calls/{call}/result`."""

    content: Any
    """What the model reads: text, or any JSON."""


class SessionRequest(Body):
    """The content of `POST /v1/sessions`."""

    id: Name | None = None
    metadata: Metadata = Field(default_factory=dict)
