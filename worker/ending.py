"""How a pass leaves its run, and what a run that failed is told."""

from __future__ import annotations

from dataclasses import dataclass

from loops.errors import AgentError, LoopFailed, WorkerLost
from loops.guard import describe

from .begin import Begun
from .left import Left
from .queue import POISON, Claim, Stop

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


def refused_at_once(begun: Begun, claim: Claim) -> Ending | None:
    """Return how a run ends before its loop is called, if it does."""
    if begun.run.is_cancelling or claim.stop is Stop.ABORTED:
        return Ending(Left.CANCELLED)
    if begun.poison >= POISON:
        return Ending(
            Left.FAILED,
            WorkerLost(
                f"{begun.poison} workers died in a row while they drove the run, and none of them "
                "came further; it is given up"
            ),
        )
    return None


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
