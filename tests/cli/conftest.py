"""The command line in front of real processes: an API, a worker, and agents in a folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.children import Children
from worker.embedded import Server

AGENTS = '''
import asyncio
import time
import loops as ai
from loops.providers.scripted import call, in_turn, text


@ai.tool(read_only=True)
def double(number: int) -> int:
    """Double a number."""
    if number > 9:
        raise ValueError("too large to double")
    return 2 * number


async def echo(context: ai.Context):
    yield f"you said {context.last_message}"


async def slow(context: ai.Context):
    yield "begun"
    await asyncio.sleep(60)


async def broken(context: ai.Context):
    yield "about to break"
    raise RuntimeError("it broke")


def answer(history):
    return [text("I double."), call("double", number=4), call("double", number=40)] if len(
        history
    ) == 1 else "Done."


app = ai.App({
    "echo": echo, "slow": slow, "broken": broken,
    "doubler": ai.Agent(model=ai.scripted(answer), tools=[double]),
})
'''


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with agents, and the API that serves them."""

    folder: Path
    environment: dict[str, str]
    url: str
    pids: dict[str, int]

    def loopmill(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the folder to its end."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "api", *arguments],
            cwd=self.folder,
            env={**self.environment, "LOOPMILL_URL": self.url, **changes},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in the folder."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "api", *arguments],
            cwd=self.folder,
            env={**self.environment, "LOOPMILL_URL": self.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def write_agents(folder: Path) -> None:
    (folder / "my_agents.py").write_text(AGENTS)


def environment_for(redis_url: str | None) -> dict[str, str]:
    """The environment of a shell that knows where server and agents are."""
    kept = {name: value for name, value in os.environ.items() if "LOOPMILL" not in name}
    server = {} if redis_url is None else {"LOOPMILL_REDIS_URL": redis_url}
    return {**kept, **server, "LOOPMILL_APP": "my_agents:app"}


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An API and a worker for everything, alive."""
    folder = tmp_path_factory.mktemp("place")
    write_agents(folder)
    environment = environment_for(server.url) | {"PYTHONPATH": str(folder)}
    with Children() as children:
        api = children.start("api", ["-P", "-m", "api", "api", "--port", "0"], environment)
        worker = children.start("worker", ["-P", "-m", "api", "worker"], environment)
        url = children.wait_ready(api, r"loopmill api ready: (http\S+)").group(1)
        children.wait_ready(worker, "loopmill worker ready")
        yield Place(folder, environment, url, {"api": api.pid, "worker": worker.pid})


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command in an empty folder, without a server."""

    def loopmill(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return Place(tmp_path, environment_for(None), "http://127.0.0.1:9", {}).loopmill(
            *arguments, **changes
        )

    return loopmill
