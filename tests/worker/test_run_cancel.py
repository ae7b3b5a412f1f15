"""Cancelling runs, on fakeredis and on the real server: settled here, or told to stop."""

from typing import Any

import pytest

from loops.errors import AlreadySettled
from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.passes import TENANT, Hands
from worker.begin import NotBegun
from worker.calls import RunPlace
from worker.link import Link
from worker.run_record import RunStatus


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


async def _nothing_left_of_its_job(hands: Hands, place: RunPlace) -> None:
    job = hands.resources.keys.run_job(TENANT, place.run_id)
    assert await hands.link.command("KEYS", f"arq:*{job}") == []
    assert await hands.resources.queue.depth("runs") == 0
    queue = hands.resources.keys.queue("runs")
    for name in (queue.claims, queue.tokens, queue.lapses):
        assert await hands.link.command("EXISTS", name) == 0


async def test_a_queued_run_is_settled_at_once(hands: Hands):
    place = await hands.submit()

    receipt = await hands.resources.runs.cancel(TENANT, place.run_id)

    assert (receipt.status, receipt.is_settled) == (RunStatus.CANCELLED, True)
    run = await hands.resources.runs.load(TENANT, place.run_id)
    assert run.status == RunStatus.CANCELLED
    assert run.error is not None
    assert (run.error.code, run.finished_at is not None) == ("cancelled", True)
    assert await hands.types(place) == ["run.queued", "run.cancelled"]
    await _nothing_left_of_its_job(hands, place)


async def test_a_claimed_run_that_no_pass_has_begun_is_settled_and_cannot_be_begun(hands: Hands):
    place = await hands.submit()
    claim = await hands.claim()

    assert (await hands.resources.runs.cancel(TENANT, place.run_id)).is_settled

    assert isinstance(await hands.begin(place, claim), NotBegun)
    assert await hands.types(place) == ["run.queued", "run.cancelled"]
    await _nothing_left_of_its_job(hands, place)


async def test_a_waiting_run_is_settled_at_once_with_its_calls(hands: Hands):
    place = await hands.submit()
    one = await hands.drive(place)
    await one.start_call("turn:1.0")
    await one.start_call("turn:1.1")
    await hands.take_call(place)
    assert (await one.park("turn:1.0"))[0] == 1

    receipt = await hands.resources.runs.cancel(TENANT, place.run_id)

    assert receipt.is_settled
    assert sorted(receipt.cancelled_calls) == ["turn:1.0", "turn:1.1"]
    assert await hands.resources.queue.depth("tools") == 0
    calls = await hands.resources.runs.calls(TENANT, place.run_id)
    assert {call.state for call in calls} == {"cancelled"}
    await _nothing_left_of_its_job(hands, place)


async def test_a_running_run_is_flagged_and_its_receipt_says_what_still_runs(hands: Hands):
    place = await hands.submit()
    one = await hands.drive(place)
    await one.start_call("turn:1.0")
    tool = await hands.take_call(place)
    assert (await tool.start())[0] == 1
    await one.start_call("turn:1.1")

    receipt = await hands.resources.runs.cancel(TENANT, place.run_id)

    assert (receipt.status, receipt.is_settled) == (RunStatus.RUNNING, False)
    assert (receipt.stopping, receipt.cancelled_calls) == (["turn:1.0"], ["turn:1.1"])
    run = await hands.resources.runs.load(TENANT, place.run_id)
    assert (run.status, run.is_cancelling) == (RunStatus.RUNNING, True)
    assert await hands.link.command("ZSCORE", "arq:abort", one.claim.job_id) is not None


async def test_the_owner_of_a_running_run_is_told(hands: Hands):
    place = await hands.submit()
    one = await hands.drive(place)
    heard: list[Any] = []
    async with hands.link.client.pubsub() as subscription:
        await subscription.subscribe(hands.resources.keys.owner("w"))
        await subscription.get_message(timeout=1)

        await hands.resources.runs.cancel(TENANT, place.run_id)

        async def is_told() -> bool:
            message = await subscription.get_message(ignore_subscribe_messages=True, timeout=0.05)
            heard.extend([message["data"]] if message else [])
            return bool(heard)

        await wait_until(is_told, for_="the owner to be told")
    assert heard == [f"{one.claim.job_id}\ncancel\n\n".encode()]


async def test_a_settled_run_cannot_be_cancelled(hands: Hands):
    place = await hands.submit()
    one = await hands.drive(place)
    await one.settle()

    with pytest.raises(AlreadySettled, match="completed"):
        await hands.resources.runs.cancel(TENANT, place.run_id)

    assert (await hands.types(place))[-1] == "run.completed"


async def test_a_run_that_waits_in_its_sessions_line_leaves_it(hands: Hands):
    first = await hands.submit(session_id="s")
    second = await hands.submit(session_id="s")
    third = await hands.submit(session_id="s")

    await hands.resources.runs.cancel(TENANT, second.run_id)

    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (first.run_id, 1)
    await hands.resources.runs.cancel(TENANT, first.run_id)
    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (third.run_id, 0)
    assert await hands.resources.queue.depth("runs") == 1


async def test_a_session_goes_to_its_runs_in_the_order_in_which_they_came(hands: Hands):
    places = [await hands.submit(session_id="s") for _ in range(4)]
    owners: list[str | None] = []

    for place in places:
        owners.append((await hands.resources.sessions.load(TENANT, "s")).owner)
        await hands.resources.runs.cancel(TENANT, place.run_id)

    assert owners == [place.run_id for place in places]
    assert (await hands.resources.sessions.load(TENANT, "s")).owner is None


async def test_of_two_ends_at_once_the_first_one_counts(hands: Hands):
    place = await hands.submit()

    owner, runs = Owner(), hands.resources.runs
    asked = [owner.start(runs.cancel(TENANT, place.run_id), name="cancel") for _ in range(2)]
    await owner.join()

    assert [type(each.exception()) for each in asked] == [type(None), AlreadySettled]
    assert await hands.types(place) == ["run.queued", "run.cancelled"]
