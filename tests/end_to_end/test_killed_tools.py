"""The worker of a tool dies, or its owner is only thought to be dead."""

import signal

import pytest

from tests.end_to_end.conftest import OpenStage
from tests.kills.harness import LEASE, TENANT, Stage
from tests.waiting import wait_until
from worker.event_log import LogEvent

pytestmark = pytest.mark.timeout(120)


async def kill_in_tool(stage: Stage, tool: str) -> str:
    """Start a run that calls the tool, and kill the tool's worker in the middle of it."""
    stage.man()
    run_id = await stage.submit("one_tool", f"{tool} 1.0")
    await stage.until(run_id, "tool.started")
    await wait_until(lambda: bool(stage.marks(run_id)), for_="the tool's mark")
    stage.tools[0].kill()
    stage.man()
    return run_id


async def test_an_idempotent_tool_runs_again(open_stage: OpenStage) -> None:
    async with open_stage(**LEASE) as stage:
        run_id = await kill_in_tool(stage, "measure")

        events = await stage.until(run_id)

        assert stage.marks(run_id) == ["measure", "measure"]
        assert [e.data["attempt"] for e in events if e.type == "tool.started"] == [1, 2]
        assert (await stage.run(run_id)).output == "ann is measured"


async def test_another_tool_is_lost_and_the_model_is_told(open_stage: OpenStage) -> None:
    async with open_stage(**LEASE) as stage:
        run_id = await kill_in_tool(stage, "pay")

        events = await stage.until(run_id)

        assert stage.marks(run_id) == ["pay"]
        assert [e.type for e in events].count("tool.lost") == 1
        output = (await stage.run(run_id)).output
        assert output is not None
        assert "may or may not have had its effect" in output
        assert [c.state for c in await stage.resources.runs.calls(TENANT, run_id)] == ["lost"]


async def test_what_a_stopped_worker_writes_later_is_refused(open_stage: OpenStage) -> None:
    """SIGSTOP beyond the lease, a takeover, SIGCONT: one end, and nothing of the first counts."""
    async with open_stage(AGENTS_PACE="20", **LEASE) as stage:
        stage.man()
        run_id = await stage.submit("story", "60")
        seen = await stage.until(run_id, "text.delta")
        first = stage.owner(seen)
        assert first is not None

        first.signal(signal.SIGSTOP)
        await stage.until(run_id, "run.retrying")
        first.signal(signal.SIGCONT)
        events = await stage.until(run_id)

        run = await stage.run(run_id)
        assert (run.status, run.attempt, run.output) == ("completed", 2, "word " * 60)
        assert sum(e.type in {"run.completed", "run.failed"} for e in events) == 1
        text = "".join(e.data["text"] for e in after_reset(events) if e.type == "text.delta")
        assert text == "word " * 60
        await wait_until(lambda: "lost" in first.told(), for_="the first worker to hear of it")


def after_reset(events: list[LogEvent]) -> list[LogEvent]:
    """Return the events that no reset has voided."""
    kept: list[LogEvent] = []
    for event in events:
        if event.type == "turn.reset":
            kept = [one for one in kept if one.seq <= event.data["after"]]
        kept.append(event)
    return kept
