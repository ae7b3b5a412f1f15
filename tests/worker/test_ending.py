"""What each way of leaving a run means for it."""

import pytest

from loops.errors import LoopFailed, Overloaded, ReplayDiverged, RunTimedOut
from worker.ending import LEFT_BY_STOP, Ending, failure_of
from worker.left import OUTCOMES, Left
from worker.queue import Stop
from worker.run_record import TERMINAL, RunStatus


def test_every_way_of_leaving_has_an_outcome_and_every_stop_is_a_way():
    assert set(OUTCOMES) == set(Left)
    assert set(LEFT_BY_STOP) == set(Stop)


def test_only_who_gives_the_run_up_to_others_settles_nothing():
    unsettled = {left for left, status in OUTCOMES.items() if status is None}

    assert unsettled == {
        Left.PARKED,
        Left.HANDED_BACK,
        Left.PASS_ENDED,
        Left.STEERED,
        Left.LOST,
    }
    assert {status for status in OUTCOMES.values() if status} == TERMINAL
    assert OUTCOMES[Left.TIMED_OUT] is RunStatus.FAILED


def test_a_deploy_never_cancels_and_a_lost_claim_never_settles():
    assert {LEFT_BY_STOP[stop] for stop in (Stop.DRAINED, Stop.SHUT)} == {Left.HANDED_BACK}
    assert {LEFT_BY_STOP[stop] for stop in (Stop.LOST, Stop.STALLED)} == {Left.LOST}
    assert LEFT_BY_STOP[Stop.ABORTED] is Left.CANCELLED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunTimedOut("too long"), "timed_out"),
        (ReplayDiverged("it asks something else"), "replay_diverged"),
        (Overloaded("busy"), "overloaded"),
        (LoopFailed("it broke"), "loop_failed"),
        (ValueError("it broke"), "loop_failed"),
        (BaseExceptionGroup("", [KeyError("x")]), "loop_failed"),
        (SystemExit(3), "loop_failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_a_failed_run_is_told_code_and_message(error: BaseException, code: str):
    failure = failure_of(Ending(Left.FAILED, error))

    assert failure is not None
    assert failure["code"] == code
    assert failure["message"]


def test_a_group_of_one_error_is_that_error():
    failure = failure_of(Ending(Left.FAILED, BaseExceptionGroup("", [KeyError("x")])))

    assert failure == {"code": "loop_failed", "message": "the loop raised KeyError: 'x'"}


def test_a_cancelled_run_says_so_and_a_completed_one_says_nothing():
    assert failure_of(Ending(Left.COMPLETED)) is None
    cancelled = failure_of(Ending(Left.CANCELLED, RuntimeError("while it was closed")))
    assert cancelled == {"code": "cancelled", "message": "the run was cancelled"}
