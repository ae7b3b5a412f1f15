import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import Place, environment_for, open_place
from worker.embedded import Server


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An API and a worker for everything, alive."""
    with open_place(server.url, tmp_path_factory.mktemp("place"), "all") as place:
        yield place


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command in an empty folder, without a server."""

    def loopmill(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return Place(tmp_path, environment_for(None), "http://127.0.0.1:9", {}).loopmill(
            *arguments, **changes
        )

    return loopmill
