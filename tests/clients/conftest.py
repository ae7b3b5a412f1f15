from collections.abc import Iterator

import pytest

from tests.processes import Place, open_place
from worker.embedded import Server


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An API and a worker for everything, alive."""
    with open_place(server.url, tmp_path_factory.mktemp("place"), "all") as place:
        yield place
