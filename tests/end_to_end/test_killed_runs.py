"""The run worker dies by SIGKILL in the four places where a run can be; and every few events."""

import asyncio
from collections import Counter

import pytest

from tests.end_to_end.conftest import KILLED, OpenStage
from tests.kills.conftest import WIRED, asking
from tests.kills.harness import LEASE, Moment, Stage
from tests.kills.hostile import FAILURES, HostileProvider
from tests.kills.test_sweep import differences
from tests.loops.providers.service import served
from worker.event_log import LogEvent
from worker.run_record import RunStatus

pytestmark = pytest.mark.timeout(180)


def in_mid_text(events: list[LogEvent]) -> bool:
    return events[-1].type == "text.delta"


def between_two_calls_of_a_message(events: list[LogEvent]) -> bool:
    return events[-1].type == "tool.queued"


def while_tools_run(events: list[LogEvent]) -> bool:
    types = [event.type for event in events]
    return types[-1] == "tool.started" and "turn.finished" in types


def between_results_and_the_next_turn(events: list[LogEvent]) -> bool:
    return sum(event.type == "tool.finished" for event in events) == 3


@pytest.mark.parametrize(
    "moment",
    [
        in_mid_text,
        between_two_calls_of_a_message,
        while_tools_run,
        between_results_and_the_next_turn,
    ],
)
async def test_a_run_survives_its_workers_death(open_stage: OpenStage, moment: Moment) -> None:
    """Another worker goes on; nothing is lost, doubled or done twice."""
    async with open_stage(app=KILLED, **LEASE) as stage:
        stage.man()
        calm, _ = await stage.through("passing")

        killed, _ = await stage.through("passing", kill_when=moment)

        assert killed.attempts == 2
        assert differences(killed, calm) == []


async def test_loops_of_every_kind_survive_a_kill_at_any_event(open_stage: OpenStage) -> None:
    """A sample of the sweep that `make test-kills` makes whole."""
    async with open_stage(app=KILLED, **LEASE) as stage:
        wrong: list[object] = []
        agents = ("plain", "transforming", "dropping", "injecting", "careful")
        for at, agent in enumerate(agents, start=1):
            stage.man()
            calm, events = await stage.through(agent)
            stage.man()
            killed, _ = await stage.through(agent, kill_at=events * at // 6)
            wrong += differences(killed, calm)

        assert wrong == []


async def test_so_does_a_run_whose_provider_fails_in_between(open_stage: OpenStage) -> None:
    """It is turned away, cut, failed after the status, overloaded; and its worker is killed."""
    async with (
        served(HostileProvider([])) as provider,
        open_stage(app=WIRED, **asking(provider)) as stage,
    ):
        stage.man()
        calm, events = await stage.through("anthropic")
        failed = dict(provider.failed)
        provider.counts.clear()
        stage.man()
        killed, _ = await stage.through("anthropic", kill_at=events // 2)

    assert calm.status == "completed"
    assert failed == Counter(kind for lot in FAILURES for kind in lot)
    assert differences(killed, calm) == []


async def first_queued(stage: Stage, run_ids: list[str]) -> str:
    for run_id in run_ids:
        if (await stage.run(run_id)).status == RunStatus.QUEUED:
            return run_id
    raise AssertionError("no run waits any more")


async def test_a_run_goes_on_within_15_s_of_the_kill_past_2000_that_wait(
    open_stage: OpenStage,
) -> None:
    """With the default lease, and a backlog that comes after what a dead worker had."""
    async with open_stage(app=KILLED, KILLS_PACE="20") as stage:
        stage.man()
        backlog = [await stage.submit("passing") for _ in range(2000)]
        # The first ones may be over already; the life of the next one is seen whole.
        run_id = await first_queued(stage, backlog)

        async with asyncio.timeout(60):
            seen = await stage.watch(
                run_id,
                stage.striker(None, in_mid_text),
                until=frozenset({"run.retrying"}),
            )

        assert seen.events[-1].time / 1000 - stage.killed_at <= 15
        assert await stage.resources.queue.depth("runs") > 1000
        stage.fleet.close()
        await stage.forget_all()
