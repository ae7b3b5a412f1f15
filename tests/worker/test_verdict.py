"""The table of what becomes of a job."""

import asyncio
from datetime import timedelta

import pytest
from arq.worker import Retry

from loops.guard import Raised
from worker.queue import RELEASED, Stop
from worker.verdict import UNKNOWN, Ending, Finish, GiveBack, Lapse, NotHere, Nothing, judge

ERROR = ValueError("no")
CANCELLED = Raised(asyncio.CancelledError())


def _judge(
    outcome: object,
    stop: Stop | None = None,
    *,
    released: bool = False,
    itself: bool = False,
    late: bool = False,
) -> object:
    return judge(Ending(outcome, stop, released, itself, late))


def test_what_a_function_returns_is_the_result():
    assert _judge(5) == Finish(5, is_success=True)


def test_what_it_raises_is_the_failure():
    assert _judge(Raised(ERROR)) == Finish(ERROR, is_success=False)


def test_a_group_of_one_error_is_that_error():
    assert _judge(Raised(ExceptionGroup("one", [ERROR]))) == Finish(ERROR, is_success=False)


@pytest.mark.parametrize("stop", [None, *Stop])
def test_a_released_claim_is_left_alone_whatever_stopped_it(stop: Stop | None):
    assert _judge(RELEASED, stop) == Nothing()
    assert _judge(Raised(ERROR), stop, released=True) == Nothing()


@pytest.mark.parametrize("stop", [Stop.LOST, Stop.STALLED])
def test_a_lost_claim_writes_nothing_not_even_a_result(stop: Stop):
    assert _judge(5, stop) == Nothing()
    assert _judge(CANCELLED, stop) == Nothing()


@pytest.mark.parametrize("stop", [Stop.DRAINED, Stop.SHUT])
@pytest.mark.parametrize("itself", [True, False])
def test_a_drained_job_goes_back_in_its_place_and_costs_no_try(stop: Stop, itself: bool):
    assert _judge(CANCELLED, stop, itself=itself) == GiveBack(keeps_place=True)
    assert _judge(Raised(ERROR), stop, itself=itself) == GiveBack(keeps_place=True)


def test_a_job_that_finishes_while_it_is_drained_is_finished():
    assert _judge(5, Stop.DRAINED) == Finish(5, is_success=True)


def test_a_retry_is_counted_and_waits():
    assert _judge(Raised(Retry(defer=2))) == GiveBack(timedelta(seconds=2), is_counted=True)
    assert _judge(Raised(Retry()), itself=True) == GiveBack(is_counted=True)


def test_an_aborted_job_ends_as_arq_expects_it():
    verdict = _judge(CANCELLED, Stop.ABORTED)

    assert isinstance(verdict, Finish)
    assert isinstance(verdict.value, asyncio.CancelledError)


def test_a_time_out_is_told_from_a_cancellation():
    verdict = _judge(CANCELLED, late=True)

    assert isinstance(verdict, Finish)
    assert isinstance(verdict.value, TimeoutError)


def test_an_error_never_ends_what_settles_itself():
    assert _judge(Raised(ERROR), itself=True) == Lapse(ERROR)
    assert isinstance(_judge(CANCELLED, Stop.ABORTED, itself=True), Lapse)


def test_a_job_that_is_not_known_here_goes_back_for_a_while():
    assert _judge(NotHere()) == UNKNOWN
