"""The jobs of runs and calls: where they cannot be done, nobody waits for them for ever."""

from typing import Any

import pytest

import loops as ai
from loops.app import App
from loops.providers.scripted import call, in_turn, scripted
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Mill, milling
from tests.worker.passes import Hands, Pass
from worker.calls import RunPlace
from worker.jobs import JOBS, settle_dead
from worker.link import Link
from worker.queue import RELEASED, Claim
from worker.run_record import RunStatus


@ai.tool
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def agent(*answers: Any) -> ai.Agent:
    return ai.Agent(model=scripted(in_turn(*answers)), tools=[send])


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


@pytest.fixture
async def one(hands: Hands) -> Pass:
    return await hands.drive(await hands.submit())


async def buried(hands: Hands, claim: Claim, reason: str = "unknown_function") -> Any:
    return await settle_dead({"resources": hands.resources}, claim, reason)


def test_both_functions_settle_their_jobs_themselves():
    assert [(job.name, job.settles_itself) for job in JOBS] == [
        ("drive_run", True),
        ("perform_call", True),
    ]


async def test_a_run_that_no_worker_can_drive_fails_and_says_why(hands: Hands):
    place = await hands.submit(session_id="s")
    claim = await hands.claim()

    assert await buried(hands, claim, "unknown_function") is RELEASED

    run = await hands.resources.runs.load(TENANT, place.run_id)
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.FAILED, "unknown_function")
    assert run.error.message == "no worker could begin its job: unknown function"
    assert await hands.types(place) == ["run.queued", "run.failed"]
    assert (await hands.resources.sessions.load(TENANT, "s")).owner is None
    assert claim.released


async def test_a_call_that_no_worker_can_perform_is_an_error_result(hands: Hands, one: Pass):
    await one.start_call("turn:1.0")
    tool = await hands.take_call(one.place)

    assert await buried(hands, tool.claim, "bad_payload") is RELEASED

    [told] = await hands.resources.runs.calls(TENANT, one.place.run_id)
    assert told.state == "done"
    result = await hands.link.command("HGET", one.place.calls, "turn:1.0|result")
    assert b"no worker could begin its job: bad payload" in result
    assert await hands.resources.queue.depth("tools") == 0


async def test_a_job_that_is_none_of_ours_is_left_to_its_worker(hands: Hands):
    for job_id in ("other/acme/run_1", "t/alone", "uuid"):
        await hands.resources.queue.enqueue("runs", "f", job_id=job_id)
        claim = await hands.claim()

        assert await buried(hands, claim) is None
        assert not claim.released
        await hands.link.run("finish", [claim.queue], [claim.job_id, claim.token, "", 0])


async def test_a_stale_claim_buries_nothing(hands: Hands):
    place = await hands.submit()
    stale = await hands.claim()
    await hands.lapse(stale)
    await hands.claim(worker_id="v")

    await buried(hands, stale)

    assert (await hands.resources.runs.load(TENANT, place.run_id)).status == RunStatus.QUEUED


async def given_back(mill: Mill, place: RunPlace, queue: str, job: str) -> None:
    """Wait until the job stands in its queue again, unclaimed, for a while."""
    names = mill.resources.keys.queue(queue)

    async def is_given_back() -> bool:
        noted = await mill.link.command("EXISTS", f"{names.queue}:unknown:{job}")
        claimed = await mill.link.command("HEXISTS", names.tokens, job)
        return bool(noted and not claimed)

    await wait_until(is_given_back, for_="the job to be given back")


async def test_a_run_of_an_agent_that_is_not_known_here_is_left_to_a_newer_worker(link: Link):
    async with milling(link, {"other": agent("no")}, tools=None) as mill:
        place = await mill.submit("agent")
        job = mill.resources.keys.run_job(TENANT, place.run_id)
        await given_back(mill, place, "runs", job)
        assert [event.type for event in await mill.log(place)] == ["run.queued"]

        mill.app = App(agents={"agent": agent("done")})
        await mill.worker("runs")
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("done", 1)


async def test_a_call_of_a_tool_that_is_not_known_here_is_left_to_a_newer_worker(link: Link):
    async with milling(link, {"agent": agent([call("send", to="x")], "done")}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        newer, mill.app = mill.app, App(agents={"agent": ai.Agent()})
        await mill.worker("tools")
        [told] = await mill.resources.runs.calls(TENANT, place.run_id)
        job = mill.resources.keys.call_job(TENANT, place.run_id, told.key)
        await given_back(mill, place, "tools", job)

        mill.app = newer
        await mill.worker("tools")
        ended = await mill.ended(place)

    assert ended.results == ["sent to x"]


async def test_a_run_whose_payload_cannot_be_read_fails(link: Link):
    async with milling(link, {"agent": agent("done")}, runs=None, tools=None) as mill:
        place = await mill.submit()
        job = mill.resources.keys.run_job(TENANT, place.run_id)
        await link.command("SET", f"arq:job:{job}", b"\x80 no payload")
        await mill.worker("runs")

        ended = await mill.ended(place)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "bad_payload")
