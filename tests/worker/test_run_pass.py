"""How a pass leaves its run: cancelled, out of time, given up as poison."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted, text, until
from tests.worker.driving import TENANT, Mill, milling
from worker.calls import RunPlace
from worker.closing_history import CUT_OFF
from worker.link import Link
from worker.run_record import RunStatus


class Gate:
    """A tool that waits, and a tool that does not."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.cancelled = 0

        @ai.tool
        async def wait(what: str = "") -> str:
            """Wait."""
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return f"waited for {what}"

        @ai.tool
        async def quick() -> str:
            """Be quick."""
            return "quick"

        self.tools = [wait, quick]

    def agent(self, *answers: Any) -> ai.Agent:
        return ai.Agent(model=scripted(in_turn(*answers)), tools=self.tools)


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def cancelled(mill: Mill, place: RunPlace) -> Any:
    """Cancel the run, and see that the loop hears of it within a second."""
    began = time.monotonic()
    receipt = await mill.resources.runs.cancel(TENANT, place.run_id)
    assert not receipt.is_settled
    ended = await mill.ended(place)
    assert time.monotonic() - began < 1
    assert (ended.run.status, ended.types[-1]) == (RunStatus.CANCELLED, "run.cancelled")
    assert ended.run.error is not None
    assert ended.run.error.code == "cancelled"
    return ended


async def test_a_run_is_cancelled_while_its_model_talks(link: Link, gate: Gate):
    agent = gate.agent([text("I was about"), until(gate.open), text("never said")])
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.finished")

        ended = await cancelled(mill, place)

    assert ended.run.output == "I was about"
    assert ended.history[-1]["content"] == [{"type": "text", "text": "I was about"}]


async def test_a_run_is_cancelled_while_its_tools_work(link: Link, gate: Gate):
    turn = [text("see"), call("quick"), call("wait", what="ever")]
    async with milling(link, {"agent": gate.agent(turn, "done")}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")
        await mill.until(place, "tool.started", count=2)

        ended = await cancelled(mill, place)

    assert sorted(ended.results) == sorted(["quick", CUT_OFF])
    assert gate.cancelled == 1
    states = {c.name: c.state for c in await mill.resources.runs.calls(TENANT, place.run_id)}
    assert states == {"quick": "done", "wait": "cancelled"}


async def test_a_run_is_cancelled_while_its_calls_are_still_queued(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent([call("quick")], "done")}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")

        ended = await cancelled(mill, place)

        assert await mill.resources.queue.depth("tools") == 0
    assert ended.results == [CUT_OFF]


async def test_a_cancel_on_a_full_worker_waits_for_no_slot(link: Link, gate: Gate):
    agents = {"agent": gate.agent([call("wait")], "done"), "busy": gate.agent([until(gate.open)])}
    async with milling(link, agents, runs=1) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        busy = await mill.submit("busy")
        await mill.until(busy, "turn.started")

        await cancelled(mill, place)

        assert not (await mill.run_of(busy)).is_settled
        gate.open.set()
        await mill.ended(busy)


async def test_the_next_run_of_a_session_reads_what_a_cancelled_one_left(link: Link, gate: Gate):
    seen: list[Any] = []

    def reply(history: list[Any]) -> Any:
        seen.append(history)
        return [text("wait"), call("wait")] if len(seen) == 1 else "hello again"

    agent = ai.Agent(model=scripted(reply), tools=gate.tools)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit(session_id="s")
        await mill.until(place, "tool.started")
        waiting = await mill.submit(said="go on", session_id="s")
        await cancelled(mill, place)
        ended = await mill.ended(waiting)

    assert ended.run.output == "hello again"
    roles = [message["role"] for message in seen[1]]
    assert roles == ["user", "assistant", "user", "user"]
    assert seen[1][2]["content"][0]["content"] == CUT_OFF


async def test_a_cancelled_loop_may_still_write_what_it_has(link: Link, gate: Gate):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        try:
            yield "working"
            await gate.open.wait()
        finally:
            context.output = "what I have so far"

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")

        ended = await cancelled(mill, place)

    assert ended.run.output == "what I have so far"


async def test_a_run_that_ends_before_the_cancel_reaches_it_has_completed(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent("done")}) as mill:
        ended = await mill.through()
        with pytest.raises(ai.errors.AlreadySettled, match="completed"):
            await mill.resources.runs.cancel(TENANT, ended.run.id)


async def test_a_run_past_its_timeout_fails_and_keeps_its_partial_output(link: Link, gate: Gate):
    agent = gate.agent([text("so far"), until(gate.open)])
    async with milling(link, {"agent": agent}) as mill:
        ended = await mill.through(timeout=timedelta(milliseconds=200))

    assert (ended.run.status, ended.run.output) == (RunStatus.FAILED, "so far")
    assert ended.run.error is not None
    assert ended.run.error.code == "timed_out"
    assert ended.events[-1].data["code"] == "timed_out"
    assert ended.history[-1]["content"] == [{"type": "text", "text": "so far"}]


async def test_a_run_past_its_timeout_stops_its_tools(link: Link, gate: Gate):
    agent = gate.agent([call("wait"), until(asyncio.Event())], "done")
    async with milling(link, {"agent": agent}) as mill:
        ended = await mill.through(timeout=timedelta(milliseconds=300))

        assert ended.run.error is not None
        assert ended.run.error.code == "timed_out"
        await mill.until(place_of(mill, ended.run.id), lambda _: gate.cancelled == 1)


async def test_waiting_for_tools_is_no_running_time(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent([call("wait")], "done")}) as mill:
        place = await mill.submit(timeout=timedelta(milliseconds=200))
        await mill.until(place, "tool.started")
        await asyncio.sleep(0.4)  # past the timeout, which does not count while the run waits
        gate.open.set()
        ended = await mill.ended(place)

    assert (ended.run.status, ended.run.output) == ("completed", "done")


def place_of(mill: Mill, run_id: str) -> RunPlace:
    return RunPlace(mill.resources.keys, TENANT, run_id)


async def test_running_time_counts_over_all_passes(link: Link, gate: Gate):
    agent = gate.agent([text("so far"), until(gate.open)])
    async with milling(link, {"agent": agent}, runs=None) as mill:
        place = await mill.submit(timeout=timedelta(seconds=60))
        await link.command("HSET", place.record, "ran", 59_900)
        began = time.monotonic()
        await mill.worker("runs")

        ended = await mill.ended(place)

    assert time.monotonic() - began < 3
    assert ended.run.error is not None
    assert ended.run.error.code == "timed_out"


async def test_a_run_that_cost_three_workers_is_given_up(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent("done")}, runs=None) as mill:
        place = await mill.submit()
        await link.command("HSET", place.record, "poison", 3)
        await mill.worker("runs")

        ended = await mill.ended(place)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "worker_lost")
    assert "3 workers" in ended.run.error.message
    assert ended.of("turn.started") == []


async def test_a_run_that_two_workers_lost_is_still_tried(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent("done")}, runs=None) as mill:
        place = await mill.submit()
        await link.command("HSET", place.record, "poison", 2)
        await mill.worker("runs")

        assert (await mill.ended(place)).run.status == RunStatus.COMPLETED


async def test_a_run_that_arq_aborts_is_cancelled(link: Link, gate: Gate):
    async with milling(link, {"agent": gate.agent([until(gate.open)])}) as mill:
        place = await mill.submit()
        await mill.until(place, "turn.started")
        seconds, micros = await link.command("TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        await link.command(
            "ZADD", "arq:abort", now, mill.resources.keys.run_job(TENANT, place.run_id)
        )

        ended = await mill.ended(place)

    assert ended.run.status == RunStatus.CANCELLED
