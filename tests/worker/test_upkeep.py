"""Upkeep: indexes forget what has expired and nothing else, and late runs expire."""

from datetime import timedelta
from time import time

import pytest

from tests.worker.passes import TENANT, Hands
from worker import upkeep
from worker.calls import RunPlace
from worker.link import Link
from worker.new_run import PATIENCE
from worker.run_record import RunStatus
from worker.upkeep import expire_late_runs, keep_up, prune_indexes


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


async def prune(hands: Hands) -> int:
    return await prune_indexes({"resources": hands.resources})


async def age(hands: Hands, age: timedelta) -> None:
    """Let everything in the indexes have come so long ago."""
    link, stamp = hands.link, (time() - age.total_seconds()) * 1000
    for index in await link.command("KEYS", "t:*s"):
        if await link.command("TYPE", index) == b"zset":
            for name in await link.command("ZRANGE", index, 0, -1):
                await link.command("ZADD", index, stamp, name)


async def be_late(hands: Hands, *places: RunPlace) -> None:
    """Let the runs' time to start be over."""
    await age(hands, PATIENCE + timedelta(minutes=1))
    for place in places:
        await hands.link.command("HSET", place.record, "start_by", 1)


async def test_nothing_is_forgotten_that_is_there(hands: Hands):
    place = await hands.submit(session_id="s")

    assert await prune(hands) == 0

    page = await hands.resources.runs.page(TENANT)
    assert [run.id for run in page.runs] == [place.run_id]
    sessions, _ = await hands.resources.sessions.page(TENANT)
    assert [session.id for session in sessions] == ["s"]


async def test_runs_and_sessions_whose_keys_are_gone_leave_their_indexes(
    hands: Hands, any_link: Link
):
    gone, kept = [await hands.submit(session_id=name) for name in ("old", "new")]
    await any_link.command("DEL", gone.record, hands.resources.keys.session(TENANT, "old").record)
    await age(hands, timedelta(days=31))

    assert await prune(hands) == 2

    keys = hands.resources.keys
    assert await any_link.command("ZRANGE", keys.runs(TENANT), 0, -1) == [kept.run_id.encode()]
    assert await any_link.command("ZRANGE", keys.sessions(TENANT), 0, -1) == [b"new"]


async def test_an_index_of_many_pages_is_pruned_whole(hands: Hands, any_link: Link):
    index = hands.resources.keys.runs(TENANT)
    kept = [await hands.submit() for _ in range(3)]
    for number in range(2 * upkeep.PAGE + 10):
        any_link.send("ZADD", index, number, f"run_gone{number}")

    assert await prune(hands) == 2 * upkeep.PAGE + 10

    left = await any_link.command("ZRANGE", index, 0, -1)
    assert sorted(left) == sorted(place.run_id.encode() for place in kept)


async def test_each_tenant_has_its_turn(hands: Hands, any_link: Link):
    await hands.resources.sessions.create("one", session_id="s")
    await hands.resources.sessions.create("two", session_id="s")
    for tenant in ("one", "two"):
        await any_link.command("DEL", hands.resources.keys.session(tenant, "s").record)
    await age(hands, timedelta(days=31))

    assert await prune(hands) == 2


async def test_ids_younger_than_the_retention_are_not_looked_up(any_link: Link):
    hands = Hands(any_link, {"retention": timedelta(hours=2)})
    place = await hands.submit()
    await any_link.command("DEL", place.record)

    await age(hands, timedelta(minutes=119))
    young = await prune(hands)
    await age(hands, timedelta(minutes=121))

    assert (young, await prune(hands)) == (0, 1)


async def test_a_run_that_no_worker_claims_expires_with_those_that_wait_behind_it(hands: Hands):
    places = [await hands.submit(session_id="s") for _ in range(2)]
    await be_late(hands, *places)

    await keep_up({"resources": hands.resources})

    for place in places:
        run = await hands.resources.runs.load(TENANT, place.run_id)
        assert run.status == RunStatus.EXPIRED
        assert run.error is not None
        assert run.error.code == "expired"
        assert await hands.types(place) == ["run.queued", "run.expired"]
    assert await hands.resources.queue.depth("runs") == 0
    assert (await hands.resources.sessions.load(TENANT, "s")).owner is None


async def test_a_run_whose_time_is_not_over_or_that_has_begun_does_not_expire(hands: Hands):
    begun, claimed, early = [await hands.submit() for _ in range(3)]
    await hands.drive(begun)
    await hands.claim()
    await be_late(hands, begun, claimed)

    assert await expire_late_runs({"resources": hands.resources}) == 0

    for place in (begun, claimed, early):
        assert "run.expired" not in await hands.types(place)
