"""All events of a run: those of the model's replies, of calls, of hooks and of the run itself."""

from dataclasses import dataclass, field
from typing import Any, Literal

from .lifecycle import (
    ChildFinished,
    ChildStarted,
    RunBlocked,
    RunCancelled,
    RunCompleted,
    RunEnd,
    RunEvent,
    RunExpired,
    RunFailed,
    RunQueued,
    RunResumed,
    RunRetrying,
    RunStarted,
    RunSteered,
    RunWaiting,
    RunWarning,
)
from .messages import ToolResult
from .reply import (
    BuiltinToolDelta,
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    Event,
    File,
    Frames,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)


@dataclass(frozen=True, slots=True)
class Retry(Event):
    """Forget what was yielded after the event number `after`: the reply is asked for again."""

    type = "turn.reset"
    after: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ToolQueued(Event):
    """A call waits for a worker."""

    type = "tool.queued"
    call: str
    name: str = ""
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A worker performs a call."""

    type = "tool.started"
    call: str
    name: str = ""
    worker: str | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class ToolLost(Event):
    """The worker of a call died; whether the call has had its effect is unknown."""

    type = "tool.lost"
    call: str
    name: str = ""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartialToolCallResult(Event):
    """A tool tells how far it is, or gives one value of many."""

    type = "tool.progress"
    call: str
    value: Any
    name: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallResult(Event):
    """The answer to a call."""

    type = "tool.finished"
    call: str
    id: str
    name: str
    content: Any
    is_error: bool = False
    deferred: str | None = None
    """The label of the hook that the call waits for, where another run is to go on with it."""
    told: Any = None
    """What the model is told instead of the content, where that is something else."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """What the tool raised, if it raised it in this process; never sent or stored."""

    @property
    def result(self) -> ToolResult:
        """The result, to be added to the history."""
        return ToolResult(
            self.call,
            self.id,
            self.name,
            self.content,
            is_error=self.is_error,
            deferred=self.deferred or "",
            told=self.told,
            exception=self.exception,
        )

    @classmethod
    def of(cls, result: ToolResult, *, turn: int | None = None) -> "ToolCallResult":
        """Return the event that tells the result."""
        return cls(
            result.call,
            result.id,
            result.name,
            result.content,
            result.is_error,
            result.deferred or None,
            result.told,
            result.exception,
            turn=turn,
        )


HookStatus = Literal["opened", "resolved", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class HookEvent(Event):
    """A named point where the run waits for the outside; `hook.<status>` on the wire."""

    type = "hook"
    label: str
    status: HookStatus
    payload: dict[str, Any] | None = None
    """The JSON schema of the answer that is wanted."""
    resolution: Any = None
    metadata: dict[str, Any] | None = None
    expires_at: str | None = None
    call: str | None = None
    """The key of the call that waits, where it is one."""
    run: str | None = None
    """The child run whose hook it is; None for one of this run's own."""


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A recorded step of the loop has its answer."""

    type = "step.finished"
    name: str


@dataclass(frozen=True, slots=True)
class Custom(Event):
    """Whatever else a loop yields; `custom.<name>` on the wire."""

    type = "custom"
    name: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Ping(Event):
    """A sign of life; delivered live and never stored."""

    type = "ping"


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event that a newer writer wrote."""

    type = "unknown"
    name: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


AgentEvent = (
    ModelEvent
    | RunQueued
    | RunStarted
    | RunWaiting
    | RunResumed
    | RunRetrying
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunExpired
    | RunBlocked
    | RunWarning
    | RunSteered
    | ChildStarted
    | ChildFinished
    | Retry
    | ToolQueued
    | ToolStarted
    | ToolLost
    | PartialToolCallResult
    | ToolCallResult
    | HookEvent
    | StepFinished
    | Custom
    | Ping
    | Unknown
)
"""What happens in a run."""

__all__ = [
    "AgentEvent",
    "BuiltinToolDelta",
    "BuiltinToolEnd",
    "BuiltinToolResult",
    "BuiltinToolStart",
    "ChildFinished",
    "ChildStarted",
    "Custom",
    "Event",
    "File",
    "Frames",
    "HookEvent",
    "HookStatus",
    "ModelEvent",
    "PartialToolCallResult",
    "Ping",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningStart",
    "Retry",
    "RunBlocked",
    "RunCancelled",
    "RunCompleted",
    "RunEnd",
    "RunEvent",
    "RunExpired",
    "RunFailed",
    "RunQueued",
    "RunResumed",
    "RunRetrying",
    "RunStarted",
    "RunSteered",
    "RunWaiting",
    "RunWarning",
    "StepFinished",
    "StreamEnd",
    "StreamStart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ToolCallResult",
    "ToolDelta",
    "ToolEnd",
    "ToolLost",
    "ToolQueued",
    "ToolStart",
    "ToolStarted",
    "Unknown",
]
