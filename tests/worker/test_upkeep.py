"""Upkeep: late runs expire, and indexes forget what has expired, and nothing else."""

from datetime import timedelta
from time import time

import pytest

from tests.worker.passes import TENANT, Hands
from worker import upkeep
from worker.calls import RunPlace
from worker.link import Link
from worker.run_record import RunStatus
from worker.upkeep import expire_late_runs, keep_up, prune_indexes

LONG_AGO = 1


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


async def prune(hands: Hands) -> int:
    return await prune_indexes({"resources": hands.resources})


async def aged(hands: Hands, place: RunPlace) -> RunPlace:
    """Let the run have been made long ago, and its time to start be over."""
    index = hands.resources.keys.runs(TENANT)
    await hands.link.command("ZADD", index, LONG_AGO, place.run_id)
    await hands.link.command("HSET", place.record, "start_by", LONG_AGO)
    return place


async def listed(hands: Hands) -> list[str]:
    found = await hands.link.command("ZRANGE", hands.resources.keys.runs(TENANT), 0, -1)
    return [name.decode() for name in found]


async def test_nothing_is_forgotten_that_is_there(hands: Hands):
    place = await aged(hands, await hands.submit(session_id="s"))

    assert await prune(hands) == 0

    assert await listed(hands) == [place.run_id]
    sessions, _ = await hands.resources.sessions.page(TENANT)
    assert [session.id for session in sessions] == ["s"]


async def test_old_runs_and_sessions_whose_keys_are_gone_leave_their_indexes(
    hands: Hands, any_link: Link
):
    gone, kept = [await hands.submit(session_id=name) for name in ("old", "new")]
    keys = hands.resources.keys
    await any_link.command("DEL", gone.record, keys.session(TENANT, "old").record)
    await any_link.command("ZADD", keys.runs(TENANT), LONG_AGO, gone.run_id)
    await any_link.command("ZADD", keys.sessions(TENANT), LONG_AGO, "old")

    assert await prune(hands) == 2

    assert await listed(hands) == [kept.run_id]
    assert await any_link.command("ZRANGE", keys.sessions(TENANT), 0, -1) == [b"new"]


async def test_an_index_of_many_pages_is_pruned_whole(hands: Hands, any_link: Link):
    index = hands.resources.keys.runs(TENANT)
    kept = [await aged(hands, await hands.submit()) for _ in range(3)]
    for number in range(2 * upkeep.PAGE + 10):
        any_link.send("ZADD", index, number, f"run_gone{number}")

    assert await prune(hands) == 2 * upkeep.PAGE + 10

    assert sorted(await listed(hands)) == sorted(place.run_id for place in kept)


async def test_ids_younger_than_the_retention_are_not_looked_up(any_link: Link):
    hands = Hands(any_link, {"retention": timedelta(hours=2)})
    place, index = await hands.submit(), hands.resources.keys.runs(TENANT)
    await any_link.command("DEL", place.record)

    await any_link.command("ZADD", index, (time() - 119 * 60) * 1000, place.run_id)
    young = await prune(hands)
    await any_link.command("ZADD", index, (time() - 121 * 60) * 1000, place.run_id)

    assert (young, await prune(hands)) == (0, 1)


async def test_each_tenant_has_its_turn(hands: Hands, any_link: Link):
    keys = hands.resources.keys
    for tenant in ("one", "two"):
        await hands.resources.sessions.create(tenant, session_id="s")
        await any_link.command("DEL", keys.session(tenant, "s").record)
        await any_link.command("ZADD", keys.sessions(tenant), LONG_AGO, "s")

    assert await prune(hands) == 2


async def test_a_queued_run_whose_time_to_start_is_over_expires(hands: Hands):
    late = await aged(hands, await hands.submit(session_id="s"))
    young = await hands.submit()

    assert await expire_late_runs({"resources": hands.resources}) == 1

    run = await hands.resources.runs.load(TENANT, late.run_id)
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.EXPIRED, "expired")
    assert await hands.types(late) == ["run.queued", "run.expired"]
    assert await hands.types(young) == ["run.queued"]
    assert (await hands.resources.sessions.load(TENANT, "s")).owner is None


async def test_a_run_that_waits_in_its_sessions_line_expires_too(hands: Hands):
    first = await hands.submit(session_id="s")
    late = await aged(hands, await hands.submit(session_id="s"))

    await keep_up({"resources": hands.resources})

    assert (await hands.types(late))[-1] == "run.expired"
    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (first.run_id, 0)


async def test_a_run_that_a_worker_has_claimed_or_whose_time_is_left_does_not_expire(hands: Hands):
    claimed = await aged(hands, await hands.submit())
    await hands.claim()
    early = await aged(hands, await hands.submit())
    await hands.link.command("HSET", early.record, "start_by", int(time() * 1000) + 60_000)

    assert await expire_late_runs({"resources": hands.resources}) == 0

    assert await hands.types(claimed) == await hands.types(early) == ["run.queued"]


async def test_a_run_that_has_started_does_not_expire(hands: Hands):
    place = await hands.submit()
    one = await hands.drive(place)
    await aged(hands, place)
    await keep_up({"resources": hands.resources})
    assert (await hands.types(place))[-1] == "run.started"

    await one.send("hand_back", None, one.claim.token, 0)
    await keep_up({"resources": hands.resources})

    assert (await hands.resources.runs.load(TENANT, place.run_id)).status == RunStatus.QUEUED
