"""What a claim asks for."""

from datetime import timedelta

import pytest

from worker.claiming import Ask, Asker, plan_ask
from worker.keys import Keys
from worker.slots import Slots

BOTH = ("runs", "runs:batch")


def _taken(total: int, taken: int) -> Slots:
    slots = Slots(total)
    for _ in range(taken):
        slots.take()
    return slots


def test_the_most_urgent_queue_is_asked_first():
    assert plan_ask(("a", "b"), Slots(4), {}, turn=1) == Ask(("a", "b"), (4, 4), 4)


def test_one_claim_in_five_asks_background_queues_first():
    firsts = [plan_ask(BOTH, Slots(10), {}, turn=turn).queues[0] for turn in range(10)]

    assert firsts.count("runs:batch") == 2


@pytest.mark.parametrize(
    ("total", "own", "room"),
    [(10, 0, 8), (10, 8, 0), (5, 0, 4), (5, 3, 1), (2, 0, 1), (2, 1, 0), (1, 0, 1), (3, 0, 2)],
)
def test_background_work_never_takes_the_last_slots(total: int, own: int, room: int):
    ask = plan_ask(BOTH, _taken(total, own), {"runs:batch": own}, turn=1)

    assert dict(zip(ask.queues, ask.limits, strict=True))["runs:batch"] == room


def test_a_full_worker_asks_for_nothing():
    assert plan_ask(("a",), _taken(2, 2), {"a": 2}, turn=1).free == 0


def test_numbers_of_tokens_are_never_used_twice():
    asker = Asker(Keys("t"), "w", timedelta(seconds=1))
    wishes = plan_ask(("a",), Slots(3), {}, turn=1)

    first = asker.request(wishes, {}, take_over=False)
    second = asker.request(wishes, {}, take_over=False)

    assert (first.first, first.last) == (1, 3)
    assert (second.first, second.last) == (4, 6)
