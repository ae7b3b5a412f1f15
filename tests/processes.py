"""Real processes for tests: an API and workers, with agents in a folder, as a user starts them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.children import Children

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


@contextmanager
def open_place(redis_url: str, folder: Path, *workers: str) -> Iterator[Place]:
    """Start an API and the workers (each named by its queue), and end all of them."""
    write_agents(folder)
    environment = environment_for(redis_url)
    with Children() as children:
        api = children.start("api", _loopmill("api", "--port", "0"), environment, folder)
        served = [
            children.start(queue, _loopmill("worker", queue), environment, folder)
            for queue in workers
        ]
        url = children.wait_ready(api, r"loopmill api ready: (http\S+)").group(1)
        for child in served:
            children.wait_ready(child, "loopmill worker ready")
        pids = {child.name: child.pid for child in (api, *served)}
        yield Place(folder, environment, url, pids)


def _loopmill(*arguments: str) -> list[str]:
    return ["-P", "-m", "api", *arguments]
