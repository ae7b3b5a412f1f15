import pytest

from tests.agents.runtimes import Through, in_process, on_workers


@pytest.fixture(params=["in process", "on workers"])
def through(request: pytest.FixtureRequest) -> Through:
    """Sees a run through, in this process and then on workers."""
    if request.param == "in process":
        return in_process
    return on_workers(request.getfixturevalue("link"))
