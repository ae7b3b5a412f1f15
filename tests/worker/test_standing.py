"""What a worker may do, by when the server last answered. The clock is the test's."""

from datetime import timedelta

import pytest

from worker.standing import Standing

LEASE = 9.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def standing(clock: Clock) -> Standing:
    return Standing(timedelta(seconds=LEASE), clock)


def test_nothing_begins_before_the_first_renewal(standing: Standing):
    standing.answered()

    assert not standing.may_claim


def test_a_new_process_waits_half_a_lease_before_it_takes_over(standing: Standing, clock: Clock):
    standing.renewed()
    assert standing.may_claim
    assert not standing.may_take_over

    for _ in range(5):
        clock.now += 1
        standing.answered()

    assert standing.may_take_over


def test_after_a_third_of_a_lease_in_silence_the_next_thing_is_a_renewal(
    standing: Standing, clock: Clock
):
    standing.renewed()
    clock.now += LEASE / 3 + 0.1
    assert not standing.may_claim

    standing.answered()
    assert not standing.may_claim

    standing.renewed()
    assert standing.may_claim


def test_takeovers_start_anew_after_a_silence(standing: Standing, clock: Clock):
    standing.renewed()
    for _ in range(10):
        clock.now += 1
        standing.answered()
    assert standing.may_take_over

    clock.now += LEASE
    standing.renewed()

    assert not standing.may_take_over


def test_takeovers_start_anew_after_a_failure(standing: Standing, clock: Clock):
    standing.renewed()
    for _ in range(10):
        clock.now += 1
        standing.answered()

    standing.failed()
    assert (standing.may_claim, standing.may_take_over) == (True, False)

    standing.renewed()
    clock.now += 2
    standing.renewed()
    assert not standing.may_take_over


def test_an_answer_after_half_a_lease_is_late(standing: Standing, clock: Clock):
    sent = clock.now

    clock.now += LEASE / 2
    assert not standing.is_late(sent)
    clock.now += 0.1
    assert standing.is_late(sent)
