"""Cancel: a receipt, an end within a second, nothing afterwards, and a history that is whole."""

import pytest

from loops.history import validate
from tests.end_to_end.conftest import OpenStage
from tests.kills.harness import TENANT, Stage
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


async def history_is_valid(stage: Stage, run_id: str) -> list[str]:
    """Check the session's history, and return the roles in it."""
    run = await stage.run(run_id)
    stored = await stage.resources.sessions.messages(TENANT, run.session_id)
    messages = [message.message for message in stored]
    validate(messages)
    return [message["role"] for message in messages]


async def test_a_queued_run_never_starts(open_stage: OpenStage) -> None:
    async with open_stage() as stage:
        run_id = await stage.submit("one_tool", "pay 0.1")

        receipt = await stage.resources.runs.cancel(TENANT, run_id)

        assert receipt.is_settled
        stage.man()
        later = await stage.submit("one_tool", "pay 0.0")
        await stage.until(later)
        assert [e.type for e in await stage.until(run_id)] == ["run.queued", "run.cancelled"]
        assert stage.marks(run_id) == []


async def test_a_run_in_a_model_call_ends_within_a_second(open_stage: OpenStage) -> None:
    async with open_stage(AGENTS_PACE="20") as stage:
        stage.man()
        run_id = await stage.submit("story", "500")
        await stage.until(run_id, "text.delta")

        receipt = await stage.resources.runs.cancel(TENANT, run_id)
        events = await stage.until(run_id)

        assert not receipt.is_settled
        run = await stage.run(run_id)
        assert run.status == "cancelled"
        assert run.output is not None
        assert run.output.startswith("word ")
        assert events[-1].type == "run.cancelled"
        assert await history_is_valid(stage, run_id) == ["user", "assistant"]


@pytest.mark.parametrize(("tool", "marks"), [("pay", ["pay"]), ("grind", ["grind", "stopped"])])
async def test_a_run_in_a_tool_stops_it_too(
    open_stage: OpenStage, tool: str, marks: list[str]
) -> None:
    """A synchronous tool cannot be stopped: it is listed, and sees that it is not wanted."""
    async with open_stage() as stage:
        stage.man()
        run_id = await stage.submit("one_tool", f"{tool} 30")
        await stage.until(run_id, "tool.started")
        await wait_until(lambda: bool(stage.marks(run_id)), for_="the tool to begin")

        receipt = await stage.resources.runs.cancel(TENANT, run_id)
        await stage.until(run_id)

        assert len(receipt.stopping) == 1
        assert (await stage.run(run_id)).status == "cancelled"
        assert await history_is_valid(stage, run_id) == ["user", "assistant", "user"]
        await wait_until(lambda: stage.marks(run_id) == marks, for_="the tool to see it")
        await wait_until(lambda: has_no_tools(stage), for_="the job to be gone")


async def has_no_tools(stage: Stage) -> bool:
    return await stage.resources.queue.depth("tools") == 0
