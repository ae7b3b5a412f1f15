"""How a pass leaves its run, and what a run that failed is told."""

from __future__ import annotations

from dataclasses import dataclass

from loops.errors import AgentError, LoopFailed
from loops.guard import describe

from .left import Left
from .queue import Stop

LEFT_BY_STOP: dict[Stop, Left] = {
    Stop.LOST: Left.LOST,
    Stop.STALLED: Left.LOST,
    Stop.ABORTED: Left.CANCELLED,
    Stop.DRAINED: Left.HANDED_BACK,
    Stop.SHUT: Left.HANDED_BACK,
}
"""What it means for a run that its worker takes back the job's task."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a pass leaves its run."""

    left: Left
    error: BaseException | None = None


def failure_of(ending: Ending) -> dict[str, str] | None:
    """Return code and message of how a run failed; None when it did not."""
    error = ending.error
    if ending.left is Left.CANCELLED:
        return {"code": "cancelled", "message": "the run was cancelled"}
    if error is None:
        return None
    if isinstance(error, AgentError):
        return {"code": error.code, "message": describe(error)}
    return {"code": LoopFailed.code, "message": f"the loop raised {describe(error)}"}
