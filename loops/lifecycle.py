"""The events of a run's status, from its enqueuing to its one last event."""

from dataclasses import dataclass, field

from .messages import Usage
from .reply import Event


@dataclass(frozen=True, slots=True)
class RunEvent(Event):
    """A change of the run's status."""

    agent: str | None = None
    attempt: int | None = None
    worker: str | None = None
    reason: str | None = None


class RunQueued(RunEvent):
    """The run waits for a worker."""

    __slots__ = ()
    type = "run.queued"


class RunStarted(RunEvent):
    """A worker drives the run."""

    __slots__ = ()
    type = "run.started"


class RunWaiting(RunEvent):
    """The run waits for the outside and holds no slot."""

    __slots__ = ()
    type = "run.waiting"


class RunResumed(RunEvent):
    """A worker carries the run on."""

    __slots__ = ()
    type = "run.resumed"


class RunRetrying(RunEvent):
    """The run begins another pass after something went wrong."""

    __slots__ = ()
    type = "run.retrying"


@dataclass(frozen=True, slots=True)
class RunEnd(Event):
    """The last event of a run."""

    usage: Usage | None = None
    output_length: int | None = None
    code: str | None = None
    """The stable name of the error, where there is one."""
    error: str | None = field(default=None, metadata={"wire": "message"})
    """The error as a sentence."""


class RunCompleted(RunEnd):
    """The loop came to its end."""

    __slots__ = ()
    type = "run.completed"


class RunFailed(RunEnd):
    """The run stopped by an error."""

    __slots__ = ()
    type = "run.failed"


class RunCancelled(RunEnd):
    """Somebody cancelled the run."""

    __slots__ = ()
    type = "run.cancelled"


class RunExpired(RunEnd):
    """The run had not begun when its time was over."""

    __slots__ = ()
    type = "run.expired"


@dataclass(frozen=True, slots=True)
class RunWarning(Event):
    """The run has used most of a limit of its budget."""

    type = "run.warning"
    budget: str
    """The limit's name."""
    limit: float


@dataclass(frozen=True, slots=True)
class RunBlocked(Event):
    """All open work of the run waits for hooks."""

    type = "run.blocked"
    hooks: list[str] = field(default_factory=list[str])
    """The labels of the open hooks."""


@dataclass(frozen=True, slots=True)
class RunSteered(Event):
    """What was said to the run meanwhile has entered its history."""

    type = "run.steered"
    messages: int
    """How many messages."""


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """The run has started another one, and waits for it."""

    type = "child.started"
    run: str
    """The child's id, by which its own events are read; empty in one process."""
    agent: str


@dataclass(frozen=True, slots=True)
class ChildFinished(Event):
    """A run that this one has started has come to its end."""

    type = "child.finished"
    run: str
    agent: str
    status: str
