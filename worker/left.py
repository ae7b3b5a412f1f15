"""The ways in which a pass can leave its run, and what each means for the run's status."""

from __future__ import annotations

from enum import Enum, auto

from .run_record import RunStatus


class Left(Enum):
    """How a pass ended."""

    COMPLETED = auto()
    FAILED = auto()
    CANCELLED = auto()
    """By a user."""
    TIMED_OUT = auto()
    EXPIRED = auto()
    """It came to the run after its time to start was over."""
    PARKED = auto()
    HANDED_BACK = auto()
    PASS_ENDED = auto()
    """Its provider failed in the middle of a turn: the next pass of the same claim goes on."""
    STEERED = auto()
    """Its loop came to its end, but somebody had said something: the next pass of the same claim
    takes it in."""
    LOST = auto()
    """Somebody else owns the run."""


AGAIN: dict[Left, str] = {Left.PASS_ENDED: "provider_failed", Left.STEERED: "steered"}
"""After which of them the same claim begins another pass, and what that is told as the reason."""

OUTCOMES: dict[Left, RunStatus | None] = {
    Left.COMPLETED: RunStatus.COMPLETED,
    Left.FAILED: RunStatus.FAILED,
    Left.CANCELLED: RunStatus.CANCELLED,
    Left.TIMED_OUT: RunStatus.FAILED,
    Left.EXPIRED: RunStatus.EXPIRED,
    Left.PARKED: None,
    Left.HANDED_BACK: None,
    Left.PASS_ENDED: None,
    Left.STEERED: None,
    Left.LOST: None,
}
"""The status to which a pass settles its run; None where somebody else goes on."""
