"""A stage for kills: a real server, workers that may be killed, runs that are watched."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kills.harness import LEASE, Stage, stage_on
from tests.kills.hostile import HostileProvider
from tests.loops.providers.service import Service, served

KILLED = "tests.kills.agents:app"
WIRED = "tests.kills.wired:app"


def asking(service: Service) -> dict[str, str]:
    """Return the environment of workers that ask the service."""
    return {
        **LEASE,
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": service.url,
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{service.url}/v1",
    }


@pytest.fixture
async def stage(redis_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """Two run workers and a tool worker with a lease of one second."""
    async with stage_on(redis_url, tmp_path, app=KILLED, environment=LEASE) as stage:
        stage.man()
        yield stage


@pytest.fixture
async def provider() -> AsyncIterator[HostileProvider]:
    """A provider that fails as real ones do."""
    async with served(HostileProvider([])) as service:
        yield service


@pytest.fixture
async def wired_stage(
    redis_url: str, tmp_path: Path, provider: HostileProvider
) -> AsyncIterator[Stage]:
    """The same stage, whose agents ask the provider."""
    environment = asking(provider)
    async with stage_on(redis_url, tmp_path, app=WIRED, environment=environment) as stage:
        stage.man()
        yield stage
