"""The same work over HTTP: our API, and the development server of LangGraph.

One request is one run, and its answer ends when the run does. LangGraph's server keeps all in one
process and in memory: tools are no jobs, and a run ends with its process. It is the agent server
that can be had from PyPI alone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from .deployment import Deployment
from .environments import environment
from .measuring import ROOT, run, spread
from .processes import BenchError, Processes

LANGGRAPH = (
    "langgraph==1.2.24",
    "langgraph-cli[inmem]==0.4.40",
    "langgraph-api==0.16.7",
    "langgraph-runtime-inmem==0.36.7",
)
READY_WITHIN = 60.0
AT_ONCE = 100
LIMIT = httpx.Timeout(120)

Ask = Callable[[httpx.AsyncClient], Awaitable[None]]


def beside(url: str, notes: Path, tools: int, *, quick: bool) -> dict[str, Any]:
    """Measure both; what does not start is said in place of its figures."""
    return {
        "Loopmill": {"version": "0.1.0"} | _ours(url, notes, tools, quick=quick),
        "LangGraph": {"version": LANGGRAPH[0].partition("==")[2]}
        | _langgraph(notes, tools, quick=quick),
    }


def _ours(url: str, notes: Path, tools: int, *, quick: bool) -> dict[str, Any]:
    with Processes(notes) as processes:
        deployment = Deployment(url, processes)
        deployment.workers("runs", AT_ONCE)
        deployment.workers("tools", AT_ONCE)
        _, port = deployment.api()
        body = {"agent": "three_turns", "input": str(tools), "stream": True}

        async def ask(client: httpx.AsyncClient) -> None:
            answer = await client.post("/v1/runs", json=body)
            if "event: run.completed" not in answer.text:
                raise BenchError(f"a run did not complete: {answer.text[-500:]}")

        return run(_measured(port, ask, quick=quick))


def _langgraph(notes: Path, tools: int, *, quick: bool) -> dict[str, Any]:
    bin_folder = environment("langgraph", LANGGRAPH)
    folder = notes / f"langgraph-{time.time_ns()}"
    folder.mkdir()
    shutil.copy(ROOT / "bench" / "drivers" / "langgraph_peer.py", folder / "graph.py")
    graphs = {"dependencies": ["."], "graphs": {"three_turns": "./graph.py:graph"}}
    (folder / "langgraph.json").write_text(json.dumps(graphs), encoding="utf-8")
    port = _free_port()
    command = [str(bin_folder / "langgraph"), "dev", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--no-browser", "--no-reload"]
    command += ["--n-jobs-per-worker", str(AT_ONCE)]
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LOG_LEVEL": "ERROR"}
    wanted = {"role": "user", "content": str(tools)}
    body = {"assistant_id": "three_turns", "input": {"messages": [wanted]}}

    async def ask(client: httpx.AsyncClient) -> None:
        answer = await client.post("/runs/wait", json=body)
        messages = answer.json().get("messages", [])
        if len(messages) != 1 + 3 * (1 + tools) + 1:
            raise BenchError(f"a run did not complete: {answer.text[-500:]}")

    try:
        with Processes(notes) as processes:
            server = processes.start("langgraph", command, quiet, folder=folder)
            _wait_for_port(port, server.check)
            return run(_measured(port, ask, quick=quick))
    except BenchError as error:
        return {"error": str(error)[-500:]}


async def _measured(port: int, ask: Ask, *, quick: bool) -> dict[str, Any]:
    """Time requests one by one, then many at once."""
    alone, many = (5, 20) if quick else (40, 200)
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=base, timeout=LIMIT, limits=limits) as client:
        for _ in range(3):
            await ask(client)
        took: list[float] = []
        for _ in range(alone):
            began = time.perf_counter()
            await ask(client)
            took.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(many):
                group.create_task(_asked(ask, client))
        seconds = time.perf_counter() - began
    idle = spread(took)
    return {
        "idle_p50_ms": idle["p50"],
        "idle_p99_ms": idle["p99"],
        "runs": many,
        "runs_per_second": round(many / seconds, 1),
    }


async def _asked(ask: Ask, client: httpx.AsyncClient) -> None:
    await ask(client)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int, check: Callable[[], None]) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        check()
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ok", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise BenchError(f"nothing answers on port {port} after {READY_WITHIN:g} s")
