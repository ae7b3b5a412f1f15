"""Every error this system raises on purpose.

    AgentError
    ├── RequestError            the caller asked for something impossible       → 4xx
    │   ├── UnknownRun · UnknownSession · UnknownLoop · UnknownHook · UnknownCall ·
    │   │   UnknownModel                                                        → 404
    │   ├── BrokenHistory       calls and results do not pair                   → 400
    │   ├── AlreadySettled · IdempotencyConflict · SessionBusy · SessionMovedOn ·
    │   │   StillRunning · WaitingForHook                                                     → 409
    │   ├── HookGone            a hook's time is over                           → 410
    │   ├── InvalidInput                                                        → 422
    │   └── Busy                no room now; carries `retry_after`
    │       └── QueueFull → 429 · MemoryFull → 503
    ├── RunError                the run stops; code and message are stored on it
    │   ├── TurnLimitExceeded · BudgetExceeded · RunTimedOut · HookExpired · HookDeferred
    │   ├── ReplayDiverged · WorkerLost · DuplicateName · ChildFailed
    │   └── LoopFailed          the user's loop raised; see __cause__
    │       └── BadYield        the loop yielded what is no event
    ├── ToolError               the model reads it as a tool result; the run goes on
    │   ├── UnknownTool · InvalidArguments · ToolRejected · ToolTimedOut
    │   └── ToolFailed          the tool raised; see __cause__
    ├── ProviderError           the model's service failed; `retryable` says whether to try again,
    │   │                       `retry_after` for how long the service asks to wait before that
    │   ├── RateLimited
    │   ├── ContextTooLong      carries `limit`, `sent`
    │   ├── Overloaded · Unavailable · Timeout · Incomplete
    │   └── Unauthorized · InvalidRequest · Refused
    └── SetupError              the program is put together wrongly; nothing starts

`RunLeft` stands outside of the tree: it ends a pass that owns its run no more, and is no failure.
"""

# ruff: noqa: N818 - the names say what happened; all of them are errors, but for the one that is not

from .agent_error import AgentError
from .provider_failures import (
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Timeout,
    Unauthorized,
    Unavailable,
)
from .request_failures import (
    AlreadySettled,
    BrokenHistory,
    Busy,
    HookGone,
    IdempotencyConflict,
    InvalidInput,
    MemoryFull,
    QueueFull,
    RequestError,
    SessionBusy,
    SessionMovedOn,
    StillRunning,
    UnknownCall,
    UnknownHook,
    UnknownLoop,
    UnknownModel,
    UnknownRun,
    UnknownSession,
    WaitingForHook,
)


class RunError(AgentError):
    """The run stops; code and message are stored on it."""

    code = "run_failed"


class TurnLimitExceeded(RunError):
    """A turn past the agent's `max_turns` would have begun."""

    def __init__(self, limit: int, *, mend: str = "raise max_turns if it needs more") -> None:
        self.limit = limit
        super().__init__(
            f"the agent has taken {limit!r} turns and still has something to answer; {mend}"
        )


class BudgetExceeded(RunError):
    """The run would take more than its budget allows."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.limit = limit
        super().__init__(
            f"the run has used its budget of {limit:g} {name.replace('_', ' ')}; "
            "give it a larger one if it needs more"
        )


class RunTimedOut(RunError):
    """The run was computing for longer than its timeout allows."""

    code = "timed_out"


class HookExpired(RunError):
    """Nobody resolved a hook in time."""


class HookDeferred(RunError):
    """The answer to a hook will come to another run, which goes on with this one's history."""

    def __init__(self, label: str) -> None:
        self.label = label
        super().__init__(f"Deferred on hook {label!r}")


class ReplayDiverged(RunError):
    """A resumed loop asks for something else than before, and going on might repeat a tool."""


class ChildFailed(RunError):
    """A run that this one started, and waited for, did not complete."""

    def __init__(self, agent: str, run: str, reason: str) -> None:
        self.agent = agent
        self.run = run
        """The child's id; empty in one process."""
        named = f"the child run {run!r}" if run else "a child run"
        super().__init__(f"{named} of {agent!r} did not complete: {reason}")


class WorkerLost(RunError):
    """Too many workers died in a row while they drove the run."""


class DuplicateName(RunError):
    """Two steps or hooks of one name are open at the same time."""


class LoopFailed(RunError):
    """The user's loop raised; the cause is its error."""


class BadYield(LoopFailed):
    """The loop, or the model's port that it asked, yielded a value that is no event."""


class ToolError(AgentError):
    """The model reads it as the result of its call, and the run goes on."""


class UnknownTool(ToolError):
    """The model called a tool that the agent does not have."""


class InvalidArguments(ToolError):
    """The arguments of a call do not fit the tool."""


class ToolRejected(ToolError):
    """A person did not approve the call."""


class ToolTimedOut(ToolError):
    """The tool took longer than its timeout allows."""


class ToolFailed(ToolError):
    """The tool raised; the cause is its error."""


class SetupError(AgentError):
    """The program is put together wrongly: a name, a path, a signature; nothing starts."""


class RunLeft(BaseException):
    """A port refuses to work for a pass that owns its run no more.

    It is a `BaseException`, so that no `except Exception` of a loop stops it: whatever such a pass
    still does is without effect, and the sooner it ends the better.
    """

    def __init__(self, message: str = "this pass owns its run no more") -> None:
        super().__init__(message)


__all__ = [
    "AgentError",
    "AlreadySettled",
    "BadYield",
    "BrokenHistory",
    "BudgetExceeded",
    "Busy",
    "ChildFailed",
    "ContextTooLong",
    "DuplicateName",
    "HookDeferred",
    "HookExpired",
    "HookGone",
    "IdempotencyConflict",
    "Incomplete",
    "InvalidArguments",
    "InvalidInput",
    "InvalidRequest",
    "LoopFailed",
    "MemoryFull",
    "Overloaded",
    "ProviderError",
    "QueueFull",
    "RateLimited",
    "Refused",
    "ReplayDiverged",
    "RequestError",
    "RunError",
    "RunLeft",
    "RunTimedOut",
    "SessionBusy",
    "SessionMovedOn",
    "SetupError",
    "StillRunning",
    "Timeout",
    "ToolError",
    "ToolFailed",
    "ToolRejected",
    "ToolTimedOut",
    "TurnLimitExceeded",
    "Unauthorized",
    "Unavailable",
    "UnknownCall",
    "UnknownHook",
    "UnknownLoop",
    "UnknownModel",
    "UnknownRun",
    "UnknownSession",
    "UnknownTool",
    "WaitingForHook",
    "WorkerLost",
]
