"""The gateways that are measured, each started as its users start it, before one upstream.

Each has one key for its callers. Our server is a fresh one each time, so that nobody's runs lie in
another's memory; LiteLLM's proxy has no database, and keeps nothing.
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from .callers import HOST, KEY, Caller
from .deployment import Deployment
from .environments import environment
from .gateway_requests import CHAT, MESSAGES, MODELS
from .measuring import ROOT, cpu_seconds, run
from .probe import open_server
from .processes import BenchError, Processes, Running

PINS = ROOT / "tests" / "peers" / "litellm.txt"
"""The version that our providers are tested against, with all that it needs."""
READY_WITHIN = 90.0
AT_ONCE = 100
"""How many requests a worker of ours holds."""
QUIET = 0.1
"""Seconds of the processor in one second, below which a server has nothing more to prepare."""

PRODUCTION = {
    # As its documentation advises for production, and without asking the network for prices.
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MASTER_KEY": KEY,
    # Else it is compiled anew at each start where Python may not keep what it compiled.
    "PYTHONDONTWRITEBYTECODE": "",
    "NO_PROXY": HOST,
}


def pinned() -> tuple[str, ...]:
    """Return LiteLLM's proxy and all that it needs, by name and version."""
    return tuple(PINS.read_text(encoding="utf-8").split("\n")[:-1])


def version() -> str:
    """Return LiteLLM's version."""
    [found] = [line for line in pinned() if line.startswith("litellm==")]
    return found.partition("==")[2]


def open_upstream(processes: Processes) -> int:
    """Start the upstream and return its port."""
    command = [sys.executable, "-m", "bench.drivers.gateway_upstream"]
    return int(processes.start("upstream", command, {}).wait_for(" ready: ").split()[-1])


@contextmanager
def loopmill(upstream: int, *, workers: int, calls: bool) -> Generator[int]:
    """Start an API and run workers, and give its port."""
    with open_server() as (url, notes), Processes(notes) as processes:
        place = _place(notes, "params", upstream, "loopmill_callback" if calls else "")
        settings = {"LOOPMILL_CONFIG": str(place / "config.yaml"), "LOOPMILL_API_KEYS": KEY}
        deployment = Deployment(url, processes, settings)
        deployment.workers("runs", AT_ONCE, workers)
        _, port = deployment.api()
        yield port


@contextmanager
def litellm(upstream: int, *, workers: int, calls: bool) -> Generator[int]:
    """Start LiteLLM's proxy and give its port."""
    program = environment("litellm", pinned()) / "litellm"
    with open_notes() as notes, Processes(notes) as processes:
        place = _place(notes, "litellm_params", upstream, "litellm_callback" if calls else "")
        port = _free_port()
        command = [str(program), "--config", "config.yaml", "--host", HOST, "--port", str(port)]
        command += ["--num_workers", str(workers)]
        quiet = {**PRODUCTION, "HOME": str(notes), "PYTHONPATH": str(place)}
        server = processes.start("litellm", command, quiet, folder=place)
        _wait_for(server, port)
        yield port


@contextmanager
def open_notes() -> Generator[Path]:
    """Give a folder that is gone afterwards."""
    with open_server() as (_, notes):
        yield notes


STARTED: dict[str, Callable[..., Any]] = {"Loopmill": loopmill, "LiteLLM": litellm}


def _place(notes: Path, params: str, upstream: int, callback: str) -> Path:
    """Return a folder with a configuration, and the callback's module beside it."""
    place = notes / "place"
    place.mkdir()
    base = f"http://{HOST}:{upstream}"
    models = {
        MODELS[MESSAGES]: {"model": "anthropic/scripted", "api_base": base},
        MODELS[CHAT]: {"model": "openai/scripted", "api_base": f"{base}/v1"},
    }
    told: dict[str, Any] = {
        "model_list": [
            {"model_name": name, params: {**model, "api_key": "none"}}
            for name, model in models.items()
        ]
    }
    if callback:
        shutil.copy(ROOT / "bench" / "drivers" / f"{callback}.py", place)
        names = {"callbacks": [f"{callback}.lookup"]}
        told |= names if params == "params" else {"litellm_settings": names}
    (place / "config.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return place


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _wait_for(server: Running, port: int) -> None:
    """Return when it answers and all of its workers are up: none of them says so by itself."""
    deadline = time.monotonic() + READY_WITHIN
    spent = 0.0
    while time.monotonic() < deadline:
        server.check()
        before, spent = spent, cpu_seconds([server.pid])
        if spent - before < QUIET and run(_answers(port)):
            return
        time.sleep(1)
    raise BenchError(f"nothing answers on port {port} after {READY_WITHIN:g} s: {server.told()}")


async def _answers(port: int) -> bool:
    try:
        caller = await Caller.connect(port)
        answer = await caller.ask(b"GET /health/liveliness HTTP/1.1\r\nhost: bench\r\n\r\n")
        caller.close()
    except OSError:
        return False
    return answer.status == 200
