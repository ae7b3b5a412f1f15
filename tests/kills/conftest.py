"""A stage for kills: a real server, workers that may be killed, runs that are watched."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kills.harness import LEASE, Stage, stage_on

KILLED = "tests.kills.agents:app"


@pytest.fixture
async def stage(redis_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """Two run workers and a tool worker with a lease of one second."""
    async with stage_on(redis_url, tmp_path, app=KILLED, environment=LEASE) as stage:
        stage.man()
        yield stage
