"""The servers of other people, and the record of what our providers came to with them."""

from collections.abc import Generator, Iterator

import pytest

from api.children import Children
from tests.peers.providers import result
from tests.peers.providers.routes import Peer, Route
from tests.peers.providers.servers import Servers, are_installed

outcomes: dict[str, str] = {}
"""How each check of this run came out."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    if not are_installed():
        pytest.exit("the servers are not there: run make test-peers, or tests/peers/install")
    with Children() as children:
        yield Servers(children, tmp_path_factory.mktemp("servers"))


@pytest.fixture(scope="session")
def aimock(servers: Servers) -> str:
    """The address of aimock."""
    return servers.start_aimock()


@pytest.fixture(scope="session")
def litellm(servers: Servers, aimock: str) -> str:
    """The address of LiteLLM's proxy, which asks aimock."""
    return servers.start_litellm(aimock)


@pytest.fixture
def peer(request: pytest.FixtureRequest, aimock: str) -> Peer:
    """The server on the route that the test is told."""
    route: Route = request.param
    return Peer(route, str(request.getfixturevalue(route.server)), aimock)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # A check that failed stays so, whatever its end comes to.
    if outcomes.get(item.name) in {None, "passed"}:
        outcomes[item.name] = report.outcome
    return report


def pytest_sessionfinish() -> None:
    if outcomes:
        result.keep(outcomes)
