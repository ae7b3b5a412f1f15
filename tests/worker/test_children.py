"""Child runs on workers: started once, ended with their parent, and seen from it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from pydantic import BaseModel

import loops as ai
from loops.events import Custom
from loops.providers.scripted import call, in_turn, scripted
from loops.question import Answer
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Ended, Mill, milling
from tests.worker.worlds import Loop, World
from worker.calls import RunPlace
from worker.link import Link
from worker.run_record import RunStatus

SOON = timedelta(milliseconds=20)


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool


async def asks_poet(context: ai.Context) -> AsyncIterator[object]:
    """A loop that asks the poet, and says what that gave."""
    child = await context.run_agent("poet", "write")
    yield Custom("child", child.run)
    yield child.output


async def asks_for_ink(context: ai.Context) -> AsyncIterator[object]:
    """A loop that asks the outside."""
    decision = await ai.hook("ink", payload=Decision, expires=timedelta(days=20))
    yield f"ink: {decision.go}"


def agents(world: World, poet: object = None) -> dict[str, object]:
    model = scripted(in_turn([call("wait")], "a poem"))
    given = poet or ai.Agent(model=model, tools=world.tools)
    return {"agent": Loop(asks_poet, world), "poet": given}


async def child_of(mill: Mill, place: RunPlace) -> RunPlace:
    """Wait until the run has started a child, and return that."""
    await mill.until(place, "child.started")
    (started,) = [event for event in await mill.log(place) if event.type == "child.started"]
    return RunPlace(place.keys, TENANT, started.data["run"])


async def status_of(mill: Mill, place: RunPlace, status: RunStatus) -> None:
    async def has_it() -> bool:
        return (await mill.run_of(place)).status == status

    await wait_until(has_it, for_=f"the run to be {status}")


async def answer(mill: Mill, place: RunPlace, label: str) -> None:
    hook = await mill.resources.hooks.load(TENANT, place.run_id, label)
    await mill.resources.hooks.close(TENANT, hook, Answer("resolved", {"go": True}))


async def test_a_parent_needs_no_slot_while_it_waits(link: Link):
    world = World()
    world.open.set()
    async with milling(link, agents(world), runs=1) as mill:
        place = await mill.submit()
        ended = await mill.ended(place)
        child = await mill.run_of(await child_of(mill, place))

    assert ended.run.output == "a poem"
    assert child.parent_id == place.run_id
    assert child.session_id != ended.run.session_id
    assert ended.of("child.finished") == [{"run": child.id, "agent": "poet", "status": "completed"}]


async def test_a_parent_that_dies_finds_the_child_that_it_had_started(link: Link):
    world = World()
    async with milling(link, agents(world)) as mill:
        place = await mill.submit()
        child = await child_of(mill, place)
        await mill.until(child, "tool.started")
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        world.open.set()
        ended = await mill.ended(place)

    assert ended.run.output == "a poem"
    assert ended.types.count("child.started") == 1
    assert ended.of("custom.child") == [{"value": child.run_id}]
    assert world.done == [""]


async def test_a_parent_that_waits_long_is_parked_and_goes_on_with_the_answer(link: Link):
    world = World()
    async with milling(link, agents(world), park_after=SOON) as mill:
        place = await mill.submit()
        await status_of(mill, place, RunStatus.WAITING)
        world.open.set()
        ended = await mill.ended(place)

    assert ended.run.output == "a poem"
    assert ended.run.attempt == 1
    assert "run.waiting" in ended.types


async def cancelled(mill: Mill, place: RunPlace, child: RunPlace) -> tuple[Ended, Ended]:
    await mill.resources.runs.cancel(TENANT, place.run_id)
    return await mill.ended(place), await mill.ended(child)


async def test_a_child_ends_with_its_parent(link: Link):
    world = World()
    async with milling(link, agents(world)) as mill:
        place = await mill.submit()
        child = await child_of(mill, place)
        await mill.until(child, "tool.started")
        parent, ended = await cancelled(mill, place, child)

    assert parent.run.status == RunStatus.CANCELLED
    assert ended.run.status == RunStatus.CANCELLED
    assert world.done == []


async def test_so_does_one_that_is_parked_and_one_that_nobody_drives(link: Link):
    world = World()
    async with milling(link, agents(world, asks_for_ink), park_after=SOON) as mill:
        place = await mill.submit()
        child = await child_of(mill, place)
        await status_of(mill, child, RunStatus.WAITING)
        await status_of(mill, place, RunStatus.WAITING)
        parent, ended = await cancelled(mill, place, child)
        open_hooks = await mill.resources.hooks.page(TENANT)

    assert parent.run.status == RunStatus.CANCELLED
    assert ended.run.error is not None
    assert ended.run.error.message == "the run that started it has ended"
    assert open_hooks.hooks == []


async def test_who_follows_a_parent_hears_of_the_hooks_of_its_children(link: Link):
    world = World()
    async with milling(link, agents(world, asks_for_ink), park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "hook.opened")
        child = await child_of(mill, place)
        await answer(mill, child, "ink")
        ended = await mill.ended(place)

    assert ended.run.output == "ink: True"
    hooks = ended.of("hook.opened", "hook.resolved")
    assert [(each["label"], each["run"]) for each in hooks] == [("ink", child.run_id)] * 2


async def test_a_parent_is_there_as_long_as_its_child_may_wait(link: Link):
    world = World()
    async with milling(link, agents(world, asks_for_ink), park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "hook.opened")
        left = await link.command("PTTL", place.record)
        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(place)

    assert timedelta(milliseconds=left) > timedelta(days=20)


async def test_a_child_that_is_cancelled_by_somebody_fails_where_it_is_awaited(link: Link):
    world = World()
    async with milling(link, agents(world)) as mill:
        place = await mill.submit()
        child = await child_of(mill, place)
        await mill.until(child, "tool.started")
        await mill.resources.runs.cancel(TENANT, child.run_id)
        ended = await mill.ended(place)

    assert ended.run.status == RunStatus.FAILED
    assert ended.run.error is not None
    assert ended.run.error.code == "child_failed"
    assert "the run was cancelled" in ended.run.error.message


async def test_a_child_that_nobody_waits_for_any_more_ends_with_the_run(link: Link):
    world = World()

    async def impatient(context: ai.Context) -> AsyncIterator[object]:
        try:
            async with asyncio.timeout(0.05):
                await context.run_agent("poet", "write")
        except TimeoutError:
            yield "never mind"

    given = agents(world) | {"agent": Loop(impatient, world)}
    async with milling(link, given) as mill:
        place = await mill.submit()
        ended = await mill.ended(place)
        child = await mill.ended(await child_of(mill, place))

    assert ended.run.output == "never mind"
    assert child.run.status == RunStatus.CANCELLED
