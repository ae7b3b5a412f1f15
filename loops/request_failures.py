"""What a caller can ask for and not get: the branch of requests in the tree of `errors`."""

# ruff: noqa: N818 - the names say what happened; all of them are errors

from collections.abc import Iterable
from datetime import timedelta
from typing import Self

from .agent_error import AgentError


class RequestError(AgentError):
    """The caller asked for something impossible."""

    code = "invalid_request"


class UnknownRun(RequestError):
    """No run of this tenant has the id."""


class UnknownSession(RequestError):
    """No session of this tenant has the id."""


class UnknownLoop(RequestError):
    """No agent of the app has the name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.known = sorted(known)
        names = ", ".join(repr(each) for each in self.known) or "none at all"
        super().__init__(f"no agent is named {name!r}; the app knows {names}")


class UnknownModel(RequestError):
    """No model of the configuration has the name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        names = ", ".join(repr(each) for each in sorted(known)) or "none at all"
        super().__init__(f"no model is named {name[:200]!r} here; there is {names}")


class UnknownHook(RequestError):
    """No hook of the run has the label."""


class UnknownCall(RequestError):
    """No call of the run has the key."""


class HookGone(RequestError):
    """Nobody may answer the hook any more: its time is over."""


class BrokenHistory(RequestError):
    """Calls and results of a history do not pair, or it holds what no provider takes."""


class AlreadySettled(RequestError):
    """A cancel or a resolution came too late."""


class InvalidInput(RequestError):
    """The request's content is not what the operation takes."""


class IdempotencyConflict(RequestError):
    """The idempotency key was used before, with another request."""

    @classmethod
    def of(cls, run_id: str) -> Self:
        """Return the error of a key that belongs to the run."""
        return cls(
            f"this idempotency key belongs to run {run_id!r}, made from another request; "
            "send a new key, or the same request"
        )


class SessionBusy(RequestError):
    """Another run owns the session, and the caller does not want to wait."""

    def __init__(self, session_id: str, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"session {session_id!r} belongs to run {run_id!r} until that ends; "
            "wait for it, or send on_conflict 'enqueue'"
        )


class WaitingForHook(RequestError):
    """The session's run waits for somebody's answer, so another one would wait for long."""

    def __init__(self, session_id: str, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"session {session_id!r} belongs to run {run_id!r}, which waits for a hook; answer it "
            "(/v1/hooks), or send on_conflict 'enqueue', 'interrupt', 'rollback' or 'steer'"
        )


class SessionMovedOn(RequestError):
    """Another run has had the session since, so the run cannot go on in its place."""

    def __init__(self, session_id: str, run_id: str) -> None:
        super().__init__(
            f"session {session_id!r} has gone on since run {run_id!r} ended; start a new run in it"
        )


class StillRunning(RequestError):
    """The run has to end before this can be done."""


class Busy(RequestError):
    """The system has no room now; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after: timedelta) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(Busy):
    """A queue has reached its depth limit."""


class MemoryFull(Busy):
    """Redis is short of memory."""
