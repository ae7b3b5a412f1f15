"""What a loop does after a reply: decided here, by the reply and what came before; pure."""

from dataclasses import dataclass
from enum import Enum, auto

from loops.blocks import Raw

from .turn import Turn

MAX_CONTINUATIONS = 4
"""How often in a run a reply that was cut by its limit is gone on with."""

MAX_PAUSES = 8
"""How often in a run a reply that the service pauses is asked for again."""

CUT_OFF = "Error: cut off by the output limit; the call was not carried out."
"""What a call is answered whose reply was cut by its limit: its arguments may be half."""

STOPPED = "Error: not carried out; the run was stopped with the reply that made the call."
"""What a call is answered whose run ends with its reply."""

GO_ON = "Your reply was cut off by the output limit. Go on exactly where it stopped."
"""What the model is told when it had called nothing."""

_ENDINGS = frozenset({"end_turn", "stop_sequence", "stop", "tool_use", "cut", "left"})
"""Reasons by which a reply that calls nothing is simply over."""


class Next(Enum):
    """What comes next."""

    CALL = auto()
    """The calls are carried out."""
    CONTINUE = auto()
    """The model is asked to go on with a reply that was cut."""
    RESEND = auto()
    """The same is asked again: the service has paused."""
    RECOVER = auto()
    """Earlier messages are summed up, and the same is asked again."""
    STOP = auto()
    """The run is over."""


@dataclass
class Progress:
    """How often the exceptions were made that a run may make."""

    continuations: int = 0
    pauses: int = 0
    has_recovered: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What comes next, and what the reader is told of it."""

    next: Next
    warning: str = ""


def decide(turn: Turn, progress: Progress, *, can_recover: bool) -> Decision:
    """Return what comes after the reply; what was decided is counted.

    Args:
        turn: The reply.
        progress: What was decided before.
        can_recover: Whether there is something that could be summed up.
    """
    if _is_overflow(turn) and can_recover and not progress.has_recovered:
        progress.has_recovered = True
        return Decision(Next.RECOVER)
    if turn.stop_reason in {"max_tokens", "length"}:
        if progress.continuations < MAX_CONTINUATIONS and not _is_overflow(turn):
            progress.continuations += 1
            return Decision(Next.CONTINUE)
        return _stopped(turn)
    if turn.stop_reason == "pause_turn" and progress.pauses < MAX_PAUSES:
        progress.pauses += 1
        return Decision(Next.RESEND)
    if turn.calls and turn.stop_reason not in {"pause_turn", "refusal"}:
        # Some services call and say `stop`.
        return Decision(Next.CALL)
    return Decision(Next.STOP) if turn.stop_reason in _ENDINGS else _stopped(turn)


def _stopped(turn: Turn) -> Decision:
    return Decision(Next.STOP, f"Stopped: {turn.stop_reason}")


def _is_overflow(turn: Turn) -> bool:
    if turn.stop_reason == "model_context_window_exceeded":
        return True
    return turn.stop_reason == "max_tokens" and turn.output == 0


def cut_results(turn: Turn, text: str = CUT_OFF) -> Raw | None:
    """Return the message that answers calls that are not carried out; None if there are none."""
    answers = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": text, "is_error": True}
        for block in turn.calls
    ]
    return {"role": "user", "content": answers} if answers else None
