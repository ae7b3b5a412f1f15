"""Upkeep: indexes forget what has expired, and nothing else."""

import pytest

from tests.worker.passes import TENANT, Hands
from worker import upkeep
from worker.link import Link
from worker.upkeep import prune_indexes


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


async def prune(hands: Hands) -> int:
    return await prune_indexes({"resources": hands.resources})


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

    assert await prune(hands) == 2
