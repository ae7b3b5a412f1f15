"""A stage for kills: a real server, workers that may be killed, runs that are watched."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.kills.harness import LEASE, Stage
from worker.resources import open_resources
from worker.settings import Settings


@pytest.fixture
async def stage(redis_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """Two run workers and a tool worker with a lease of one second."""
    effects = tmp_path / "effects"
    effects.touch()
    environment = {**LEASE, "KILLS_EFFECTS": str(effects)}
    fleet = Fleet(redis_url, app="tests.kills.agents:app", environment=environment)
    settings = Settings.from_env({"LOOPMILL_REDIS_URL": redis_url, **LEASE})
    try:
        async with open_resources(settings) as resources:
            stage = Stage(fleet, resources, effects)
            stage.man()
            yield stage
    finally:
        fleet.close()
