"""The whole sweep: the run worker is killed after every single event of each kind of loop."""

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest

from tests.kills.harness import Outcome, Stage
from tests.kills.hostile import HostileProvider

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results" / "kills.json"

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]


def differences(outcome: Outcome, calm: Outcome) -> list[str]:
    """Return what is not as it is without the kill; a cut turn may change what comes between."""
    wrong: list[str] = []
    if (outcome.status, outcome.output) != ("completed", calm.output):
        wrong.append(f"{outcome.status}: {outcome.output!r}")
    twice = [key for key, count in outcome.effects.items() if count > 1]
    if twice:
        wrong.append(f"done twice: {twice}")
    if sum(outcome.effects.values()) != sum(calm.effects.values()):
        wrong.append(f"{sum(outcome.effects.values())} effects")
    if not outcome.is_cut and outcome.history != calm.history:
        wrong.append(f"history {outcome.history}")
    if not outcome.is_cut and outcome.view != calm.view:
        lost, more = Counter(calm.view), Counter(outcome.view)
        wrong.append(f"view lost {list(lost - more)}, has {list(more - lost)} more")
    return wrong


@pytest.mark.parametrize(
    "agent", ["passing", "plain", "transforming", "dropping", "injecting", "careful"]
)
async def test_a_run_ends_the_same_wherever_its_worker_is_killed(stage: Stage, agent: str) -> None:
    """SIGKILL after each event: same output, history and view, and no tool twice."""
    await sweep(stage, agent, lambda: None)


async def test_so_does_one_that_starts_others_and_is_spoken_to(stage: Stage) -> None:
    """Children one by one and side by side, a streaming tool, one call at a time, a steer."""
    await sweep(stage, "rich", lambda: None, says="and hurry")


async def test_so_does_one_that_plans_and_asks_several_models(stage: Stage) -> None:
    """A plan, two streams at once, a provider that refuses, a call without a runner, lockstep."""
    await sweep(stage, "planning", lambda: None)


async def test_so_does_one_that_goes_on_with_the_work_of_another(stage: Stage) -> None:
    """A run that failed is begun again, and killed meanwhile."""
    await sweep(stage, "stormy", lambda: None, retries=True)


@pytest.mark.parametrize("agent", ["kit", "written-out"])
async def test_so_does_a_loop_of_the_kit(stage: Stage, agent: str) -> None:
    """Batches of calls with a summary between them; and a loop that keeps its answer by itself."""
    await sweep(stage, agent, lambda: None)


@pytest.mark.parametrize("agent", ["anthropic", "openai"])
async def test_so_does_a_run_whose_provider_fails_in_between(
    wired_stage: Stage, provider: HostileProvider, agent: str
) -> None:
    """It cuts replies, fails after the status, and answers 429 and 529, in each turn."""
    # Its pauses make such a run three times as long, so a fifth of the events has to do.
    await sweep(wired_stage, agent, provider.counts.clear, each=5)


async def sweep(
    stage: Stage, agent: str, before_each: Callable[[], None], *, each: int = 1, **how: Any
) -> None:
    """Kill the run's worker after each event, or each so many, one run each, and compare."""
    before_each()
    calm, events = await stage.through(agent, **how)
    began, wrong, cuts = time.monotonic(), {}, 0

    moments = range(2, events, each)
    for seq in moments:
        before_each()
        stage.man()
        killed, _ = await stage.through(agent, kill_at=seq, **how)
        cuts += killed.is_cut
        if found := differences(killed, calm):
            wrong[seq] = found

    took = round(time.monotonic() - began)
    record(agent, {"kills": len(moments), "cut": cuts, "wrong": len(wrong), "seconds": took})
    assert wrong == {}


def record(agent: str, row: dict[str, int]) -> None:
    """Keep the last result, for everybody to see; sweeps run side by side."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a+", encoding="utf-8") as file:
        flock(file, LOCK_EX)
        file.seek(0)
        results = json.loads(file.read() or "{}")
        results[agent] = {**row, "date": datetime.now(UTC).date().isoformat()}
        file.truncate(0)
        file.write(json.dumps(results, indent=2, sort_keys=True) + "\n")
