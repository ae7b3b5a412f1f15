"""What becomes of a job when its function is done: one table, decided without any I/O."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from arq.worker import Retry

from loops.guard import Raised, unwrapped

from .queue import Released, Stop

LAPSE = timedelta(seconds=1)
"""How long the claim of a job lasts whose own bookkeeping failed; then another takes it over."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is over, well or not."""

    value: object
    """What the function returned, or the error."""
    is_success: bool


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The job goes back to its queue."""

    delay: timedelta = timedelta(0)
    is_counted: bool = False
    """Whether it uses up a try."""
    keeps_place: bool = False
    """Whether it goes before what was enqueued after it."""
    patience: timedelta = timedelta(0)
    """For how long it may go back like this; 0 for ever."""


class NotHere:
    """What a job's work answers whose function, or whose payload's version, is not known here."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """The job's claim ends early: whoever takes it next knows that something failed."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to write: the claim is gone."""


UNKNOWN = GiveBack(delay=timedelta(seconds=1), patience=timedelta(minutes=5))
"""In a rolling deploy a worker meets jobs that only a newer one can do."""

Verdict = Finish | GiveBack | Lapse | Nothing


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job's function ended."""

    outcome: object
    """What it returned, or `Raised`; a `CancelledError` in it came from outside."""
    stop: Stop | None
    is_released: bool
    settles_itself: bool
    timed_out: bool


def judge(ending: Ending) -> Verdict:
    """Decide what becomes of the job."""
    outcome = ending.outcome
    if ending.is_released or isinstance(outcome, Released):
        return Nothing()
    if ending.stop in {Stop.LOST, Stop.STALLED}:
        return Nothing()
    if isinstance(outcome, NotHere):
        return UNKNOWN
    if not isinstance(outcome, Raised):
        return Finish(outcome, is_success=True)
    if ending.stop in {Stop.DRAINED, Stop.SHUT}:
        return GiveBack(keeps_place=True)
    return _judge_error(ending, unwrapped(outcome.error))


def _judge_error(ending: Ending, error: BaseException) -> Verdict:
    if isinstance(error, Retry):
        return GiveBack(timedelta(milliseconds=error.defer_score or 0), is_counted=True)
    if ending.settles_itself:
        return Lapse(error)
    if ending.stop is Stop.ABORTED:
        return Finish(asyncio.CancelledError(), is_success=False)
    if ending.timed_out:
        return Finish(TimeoutError("the job took longer than it may"), is_success=False)
    return Finish(error, is_success=False)
