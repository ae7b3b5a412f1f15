"""Whole runs over real processes on a real server."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.kills.harness import Stage, stage_on

AGENTS = "tests.end_to_end.agents:app"
KILLED = "tests.kills.agents:app"

OpenStage = Callable[..., Any]


@pytest.fixture
def open_stage(redis_url: str, tmp_path: Path) -> OpenStage:
    """Open a stage: `async with open_stage(app=…, LOOPMILL_LEASE="1s") as stage`."""

    def opened(
        *, app: str = AGENTS, url: str = redis_url, **environment: str
    ) -> AbstractAsyncContextManager[Stage]:
        return stage_on(url, tmp_path, app=app, environment=environment)

    return opened
