"""Loops and tools never share slots, and work is shared among workers."""

from collections import Counter

import pytest

from tests.end_to_end.conftest import OpenStage

pytestmark = pytest.mark.timeout(120)


async def test_one_slot_each_is_enough_for_ten_parallel_tools(open_stage: OpenStage) -> None:
    async with open_stage() as stage:
        stage.fleet.worker("runs", "--concurrency", "1")
        stage.fleet.worker("tools", "--concurrency", "1")

        run_id = await stage.submit("three_turns", "10")
        await stage.until(run_id)

        run = await stage.run(run_id)
        assert (run.status, run.output) == ("completed", "all is measured")
        assert stage.marks(run_id) == ["measure"] * 20


async def test_equal_jobs_are_shared_by_idle_workers(open_stage: OpenStage) -> None:
    """20 jobs on two idle tool workers of 20 slots each: none takes more than 12."""
    async with open_stage() as stage:
        stage.fleet.worker("runs")
        for _ in range(2):
            stage.fleet.worker("tools", "--concurrency", "20")

        run_id = await stage.submit("wide", "20")
        events = await stage.until(run_id)

        pids = Counter(e.data["pid"] for e in events if e.type == "tool.started")
        assert sum(pids.values()) == 20
        assert len(pids) == 2
        assert max(pids.values()) <= 12
