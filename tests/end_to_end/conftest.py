"""Whole runs over real processes on a real server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import Fleet
from tests.kills.harness import Stage
from worker.resources import open_resources
from worker.settings import Settings

AGENTS = "tests.end_to_end.agents:app"
KILLED = "tests.kills.agents:app"

OpenStage = Callable[..., Any]


@pytest.fixture
def open_stage(redis_url: str, tmp_path: Path) -> OpenStage:
    """Open a stage: `async with open_stage(app=…, LOOPMILL_LEASE="1s") as stage`."""

    @asynccontextmanager
    async def opened(
        *, app: str = AGENTS, url: str = redis_url, **environment: str
    ) -> AsyncIterator[Stage]:
        effects = tmp_path / "effects"
        effects.touch()
        fleet = Fleet(url, app=app, environment={**environment, "KILLS_EFFECTS": str(effects)})
        settings = Settings.from_env({"LOOPMILL_REDIS_URL": url, **environment})
        try:
            async with open_resources(settings) as resources:
                yield Stage(fleet, resources, effects)
        finally:
            fleet.close()

    return opened
