"""The demo's processes: a server of its own, an API, one worker for runs and two for tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.children import Children
from worker.embedded import Server, start_server
from worker.sharing import Use

from .asked import VARIABLE

APP = "api.demo.triage:app"
ASKED = "api.demo.asked:app"
"""The same agent over a real model."""

TOOL_WORKERS = 2

_UNWANTED = frozenset({"LOOPMILL_API_KEYS", "LOOPMILL_CONFIG", "LOOPMILL_CORS_ORIGINS"})
"""Settings of the user's that mean nothing to a demo on this machine."""


@dataclass(frozen=True, slots=True)
class Farm:
    """What was started."""

    url: str
    """Where the API is."""
    server: Server
    api_pid: int
    worker_pids: tuple[int, ...]
    """The worker for runs, then those for tools."""
    data: Path
    """The folder of the server's data."""
    children: Children


@contextmanager
def open_farm(
    data: Path, told: Callable[[str], None], *, model: str | None = None
) -> Generator[Farm]:
    """Start everything, say what is ready, and end all of it at the end of the `with`.

    `model` names a real model; without it a scripted one answers.

    Raises:
        ServerStartError: When the server does not start.
        ChildError: When a process dies, or is not ready in time.
    """
    with ExitStack() as stack:
        folder = _free_folder(data)
        server = start_server(folder)
        stack.callback(server.stop)
        told(f"server   {server.url}, pid {server.pid}")
        children = stack.enter_context(Children())
        environment = _environment(server.url, model)
        api = children.start("the API", loopmill("api", "--port", "0"), environment)
        workers = [
            children.start(f"a worker for {queue}", loopmill("worker", queue), environment)
            for queue in ("runs", *(["tools"] * TOOL_WORKERS))
        ]
        url = children.wait_ready(api, r"loopmill api ready: (http\S+)$").group(1)
        told(f"api      {url}, pid {api.pid}")
        for worker in workers:
            children.wait_ready(worker, "loopmill worker ready: ")
            told(f"worker   {worker.name.removeprefix('a worker for ')}, pid {worker.pid}")
        yield Farm(url, server, api.pid, tuple(worker.pid for worker in workers), folder, children)


def _environment(redis_url: str, model: str | None) -> dict[str, str]:
    if model is None:
        return environment_of(redis_url, APP)
    # The model may be one that the user's configuration names.
    configuration = {
        name: os.environ[name] for name in ("LOOPMILL_CONFIG",) if os.environ.get(name)
    }
    return {**environment_of(redis_url, ASKED), **configuration, VARIABLE: model}


def loopmill(*arguments: str) -> list[str]:
    """Return the command line, after the interpreter, of the same program with other arguments.

    `-P`: the current folder must not come before what is installed.
    """
    return ["-P", "-m", "api", *arguments]


def environment_of(redis_url: str, app: str, *, keeping: bool = False) -> dict[str, str]:
    """Return the environment of a process that works with the server and the app.

    Unless they are to be kept, settings that open the API to others are left out.
    """
    unwanted = frozenset[str]() if keeping else _UNWANTED
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {
        **kept,
        "LOOPMILL_REDIS_URL": redis_url,
        "LOOPMILL_APP": app,
        "PYTHONUNBUFFERED": "1",
    }


def _free_folder(data: Path) -> Path:
    """Return the data folder, or one in it when a server runs there: its workers are not ours."""
    if not (data / "server.users").exists() or Use(data / "server.users").end():
        return data
    return data / f"demo-{os.getpid()}"
