"""A second run for a session that has one; and a call that is answered by hand."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from pydantic import BaseModel

import loops as ai
from loops.errors import AlreadySettled, WaitingForHook
from loops.providers.scripted import call, in_turn, scripted
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Mill, milling
from tests.worker.worlds import World
from worker.calls import RunPlace
from worker.link import Link
from worker.new_run import OnConflict
from worker.run_record import RunStatus

SOON = timedelta(milliseconds=20)


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool


async def asks(context: ai.Context) -> AsyncIterator[object]:
    """A loop that says something, and then asks."""
    if context.last_message != "ask":
        yield f"after {len(context.messages) - 1}"
        return
    yield "well"
    await ai.hook("ship", payload=Decision)


async def waiting(mill: Mill) -> RunPlace:
    """Submit a run that waits for a hook, and is parked."""
    place = await mill.submit("agent", "ask", session_id="s")
    await mill.until(place, "run.waiting")
    return place


async def test_behind_a_run_that_waits_for_somebody_nobody_waits_unasked(link: Link):
    async with milling(link, {"agent": asks}, park_after=SOON) as mill:
        place = await waiting(mill)
        with pytest.raises(WaitingForHook, match=place.run_id):
            await mill.submit("agent", "more", session_id="s")
        second = await mill.submit("agent", "more", session_id="s", on_conflict="enqueue")
        assert (await mill.run_of(second)).status == RunStatus.QUEUED

        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(second)


@pytest.mark.parametrize(("how", "kept"), [("interrupt", 1), ("rollback", 0)])
async def test_the_run_that_waits_may_be_ended_and_forgotten(
    link: Link, how: OnConflict, kept: int
):
    async with milling(link, {"agent": asks}, park_after=SOON) as mill:
        place = await waiting(mill)
        second = await mill.submit("agent", "more", session_id="s", on_conflict=how)
        ended = await mill.ended(second)
        first = await mill.run_of(place)

    assert first.status == RunStatus.CANCELLED
    assert first.error is not None
    assert "interrupted" in first.error.message
    assert ended.run.output == f"after {kept}"
    assert [message["content"] for message in ended.history][-1] == "more"


@pytest.mark.parametrize(("how", "kept"), [("interrupt", 3), ("rollback", 0)])
async def test_so_may_one_that_is_in_its_tools(link: Link, how: OnConflict, kept: int):
    world = World()
    agents = {
        "first": ai.Agent(model=scripted(in_turn([call("wait")], "done")), tools=world.tools),
        "agent": asks,
    }
    async with milling(link, agents) as mill:
        place = await mill.submit("first", session_id="s")
        await mill.until(place, "tool.started")
        second = await mill.submit("agent", "more", session_id="s", on_conflict=how)
        ended = await mill.ended(second)
        first = await mill.ended(place)

    assert first.run.status == RunStatus.CANCELLED
    assert ended.run.output == f"after {kept}"
    assert world.done == []


async def test_a_call_may_be_answered_by_hand(link: Link):
    world = World()
    model = scripted(in_turn([call("wait"), call("look", at="sea")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=world.tools)}) as mill:
        place = await mill.submit()
        runs = mill.resources.runs
        await mill.until(place, "tool.finished")
        ledger = {each.name: each for each in await runs.calls(TENANT, place.run_id)}
        await runs.answer_call(TENANT, place.run_id, ledger["wait"], "by hand")
        with pytest.raises(AlreadySettled):
            await runs.answer_call(TENANT, place.run_id, ledger["look"], "again")
        ended = await mill.ended(place)

    assert sorted(ended.results) == ["by hand", "saw sea"]
    assert world.done == ["sea"]


async def test_one_that_waits_for_a_worker_never_starts_then(link: Link):
    world = World()
    model = scripted(in_turn([call("send", to="ann")], "done"))
    agent = ai.Agent(model=model, tools=world.tools)
    async with milling(link, {"agent": agent}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        (line,) = await mill.resources.runs.calls(TENANT, place.run_id)
        await mill.resources.runs.answer_call(TENANT, place.run_id, line, {"sent": True})
        ended = await mill.ended(place)
        depth = await mill.resources.queue.depth("tools")
        await wait_until(lambda: depth == 0)

    assert ended.results == ['{"sent":true}']
    assert world.done == []
