"""Beginning a pass, on fakeredis and on the real server: who may, and what it finds."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from loops.events import Custom, TextDelta
from loops.wire import encode
from tests.worker.passes import ASSISTANT, TENANT, USER, Hands, flush
from worker.begin import Begun, NotBegun
from worker.journal import digest, encode_turn
from worker.link import Link
from worker.run_record import RunStatus


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


def mark(event: Any) -> bytes:
    return digest(*encode(event))


async def test_the_first_pass_starts_the_run(hands: Hands):
    place = await hands.submit(metadata={"a": 1})

    one = await hands.drive(place)

    begun = one.begun
    assert (begun.epoch, begun.run.status, begun.run.attempt) == (1, RunStatus.RUNNING, 1)
    assert [message.raw() for message in begun.input] == [USER]
    assert (list(begun.window.history), begun.handed, begun.calls, begun.published) == (
        [],
        [],
        {},
        {},
    )
    assert begun.run.metadata == {"a": 1}
    started = (await hands.log(place))[-1]
    assert (started.type, started.data) == ("run.started", {"attempt": 1, "worker": "w"})


async def test_a_run_that_begins_is_known_to_some_worker(hands: Hands):
    place = await hands.submit()
    noted = place.keys.queue("runs").unknown(place.keys.run_job(TENANT, place.run_id))
    await hands.link.command("SET", noted, 1)

    await hands.drive(place)

    assert await hands.link.command("EXISTS", noted) == 0


async def test_a_claim_that_is_not_ours_begins_nothing(hands: Hands):
    place = await hands.submit()
    claim = await hands.claim()
    claim.token = "w:999"

    assert await hands.begin(place, claim) == NotBegun()

    assert await hands.types(place) == ["run.queued"]
    assert (await hands.resources.runs.load(TENANT, place.run_id)).epoch == 0


async def test_a_claim_that_another_took_over_begins_nothing(hands: Hands):
    place = await hands.submit()
    stale = await hands.claim()
    await hands.lapse(stale)
    await hands.claim(worker_id="v")

    assert await hands.begin(place, stale) == NotBegun()


async def test_a_settled_run_is_not_begun_and_its_job_is_gone(hands: Hands, any_link: Link):
    place = await hands.submit()
    await hands.resources.runs.cancel(TENANT, place.run_id)
    job = hands.resources.keys.run_job(TENANT, place.run_id)
    await hands.resources.queue.enqueue("runs", "drive_run", job_id=job)

    assert await hands.begin(place, await hands.claim()) == NotBegun()

    assert await hands.resources.queue.depth("runs") == 0
    assert await any_link.command("EXISTS", f"arq:job:{job}") == 0


async def test_a_run_whose_time_to_start_is_over_is_late(hands: Hands, any_link: Link):
    place = await hands.submit()
    await any_link.command("HSET", place.record, "start_by", 1)

    assert await hands.begin(place, await hands.claim()) == NotBegun(is_late=True)

    assert (await hands.resources.runs.load(TENANT, place.run_id)).status == RunStatus.QUEUED


async def test_a_run_that_has_started_is_never_late(hands: Hands, any_link: Link):
    place = await hands.submit()
    one = await hands.drive(place)
    await any_link.command("HSET", place.record, "start_by", 1)

    two = await hands.take_over(one)

    assert two.begun.run.attempt == 2


async def test_a_takeover_is_a_new_attempt_and_says_why(hands: Hands):
    one = await hands.drive(await hands.submit())

    two = await hands.take_over(one)

    assert (two.begun.epoch, two.begun.run.attempt, two.begun.poison) == (2, 2, 1)
    event = (await hands.log(one.place))[-1]
    assert (event.type, event.attempt) == ("run.retrying", 2)
    assert event.data == {"attempt": 2, "worker": "v", "reason": "worker_lost"}


async def test_a_pass_after_a_hand_back_costs_no_attempt(hands: Hands):
    one = await hands.drive(await hands.submit())
    assert (await one.send("hand_back", None, one.claim.token, 0))[0] == 1

    two = await hands.drive(one.place, worker_id="v")

    assert (two.begun.epoch, two.begun.run.attempt, two.begun.poison) == (3, 1, 0)
    event = (await hands.log(one.place))[-1]
    assert (event.type, event.data) == ("run.resumed", {"attempt": 1, "worker": "v"})


async def test_another_pass_of_the_same_claim_costs_no_attempt(hands: Hands):
    one = await hands.drive(await hands.submit())

    two = await hands.begin(one.place, one.claim, "provider_failed")

    assert isinstance(two, Begun)
    assert (two.epoch, two.run.attempt) == (2, 1)
    assert (await hands.log(one.place))[-1].data["reason"] == "provider_failed"


async def test_a_begin_whose_reply_was_lost_can_be_sent_again(hands: Hands):
    one = await hands.drive(await hands.submit())

    again = await hands.begin(one.place, one.claim)

    assert isinstance(again, Begun)
    assert (again.epoch, again.run.attempt, again.poison) == (2, 1, 0)
    types = await hands.types(one.place)
    assert types == ["run.queued", "run.started", "run.resumed"]


async def test_workers_lost_in_a_row_are_counted_until_the_journal_grows(hands: Hands):
    one = await hands.drive(await hands.submit())
    two = await hands.take_over(one)
    three = await hands.take_over(two, worker_id="u")
    assert three.begun.poison == 2

    await three.send("record_unit", None, "step:a:0", b"1")

    four = await hands.take_over(three)
    assert four.begun.poison == 1
    assert four.begun.run.attempt == 4


async def test_a_later_pass_finds_what_was_recorded(hands: Hands):
    one = await hands.drive(await hands.submit())
    turn = encode_turn(1, [TextDelta(0, "hi")])
    await one.send("record_unit", flush(TextDelta(0, "hi"), Custom("note")), "turn:1", turn)
    await one.start_call("turn:1.0")
    await one.send("append_yields", flush(handed=["turn:1.0"]))

    two = await hands.take_over(one)

    begun = two.begun
    found = begun.journal.turn("turn:1")
    assert found is not None
    assert found.events == (TextDelta(0, "hi"),)
    assert begun.calls["turn:1.0"]["state"] == b"queued"
    assert begun.published == Counter([mark(TextDelta(0, "hi")), mark(Custom("note"))])
    assert begun.handed == ["turn:1.0"]


async def test_an_open_turn_is_voided_with_every_later_yield_of_whatever_turn(hands: Hands):
    one = await hands.drive(await hands.submit())
    before, after = Custom("note", "before"), Custom("note", "after")
    await one.send("append_yields", flush(before, opens=""))
    await one.send("append_yields", flush(TextDelta(0, "x"), opens="turn:1"))
    await one.send("append_yields", flush(after))

    two = await hands.take_over(one)

    assert two.begun.published == Counter([mark(before)])
    reset = (await hands.log(one.place))[-1]
    assert (reset.type, reset.data) == ("turn.reset", {"after": 4, "reason": "worker_lost"})
    assert await hands.field(one.place, "open:turn:1") is None


async def test_the_oldest_of_several_open_turns_counts(hands: Hands):
    one = await hands.drive(await hands.submit())
    await one.send("append_yields", flush(opens="turn:1"))
    await one.send("append_yields", flush(Custom("between")))
    await one.send("append_yields", flush(opens="turn:2"))

    two = await hands.take_over(one)

    assert two.begun.published == Counter()
    assert (await hands.log(one.place))[-1].data["after"] == 3


async def test_a_recorded_turn_is_not_voided(hands: Hands):
    one = await hands.drive(await hands.submit())
    await one.send("append_yields", flush(TextDelta(0, "x"), opens="turn:1"))
    await one.send("record_unit", None, "turn:1", encode_turn(1, []))

    two = await hands.take_over(one)

    assert two.begun.published == Counter([mark(TextDelta(0, "x"))])
    assert "turn.reset" not in await hands.types(one.place)


async def test_failures_of_a_turns_provider_are_told_to_the_next_pass(hands: Hands):
    one = await hands.drive(await hands.submit())
    assert (await one.send("fail_turn", flush(opens="turn:1"), "turn:1"))[0] == 1

    two = await hands.begin(one.place, one.claim, "provider_failed")

    assert isinstance(two, Begun)
    assert two.failures == {"turn:1": 1}
    reset = (await hands.log(one.place))[-1]
    assert (reset.type, reset.data["reason"]) == ("turn.reset", "provider_failed")


async def test_the_first_pass_fixes_the_sessions_messages_that_the_run_starts_with(hands: Hands):
    first = await hands.drive(await hands.submit(session_id="s"))
    await first.send("append_yields", flush(messages=[USER, ASSISTANT]))
    await first.settle()

    one = await hands.drive(await hands.submit(session_id="s"))
    await one.send("append_yields", flush(messages=[USER]))
    two = await hands.take_over(one)

    for begun in (one.begun, two.begun):
        assert [message.raw() for message in begun.window.messages] == [USER, ASSISTANT]
        assert [message.raw() for message in begun.input] == [USER]


async def test_running_time_of_earlier_passes_is_kept(hands: Hands, any_link: Link):
    one = await hands.drive(await hands.submit())
    await one.send("hand_back", None, one.claim.token, 5000)

    two = await hands.drive(one.place)

    assert timedelta(milliseconds=two.begun.ran) == timedelta(seconds=5)
