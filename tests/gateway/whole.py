"""The gateway whole, in this process: an API, workers of runs, and the provider that they ask.

async with whole(redis_url, TWO, answering()) as gateway:
    answer = await gateway.post(MESSAGES)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from pydantic import SecretStr

from api.app import create_app
from api.watch import Watch
from loops.agentic import GATEWAY, Gateway
from loops.app import App
from loops.gateway.rounds import Surface
from loops.gateway.settings import GatewaySettings
from loops.model import configured_model, named_models
from tests.api.conftest import served
from tests.gateway.rounds_in_process import body_of, ports
from tests.gateway.upstream import Script, Told, Upstream, upstream
from tests.worker.driving import Mill
from tests.worker.workshop import settings
from worker.calls import RunPlace
from worker.event_log import LogEvent
from worker.resources import open_resources

PATHS = {Surface.MESSAGES: "/v1/messages", Surface.CHAT: "/v1/chat/completions"}
TENANT = "default"


@dataclass
class Whole:
    """A gateway that can be asked over HTTP."""

    client: httpx.AsyncClient
    up: Upstream
    mill: Mill

    async def post(self, surface: Surface, *, mode: str = "", **more: Any) -> httpx.Response:
        """Ask, and wait for all of the answer."""
        headers = {"x-loopmill-streaming": mode} if mode else {}
        body = body_of(surface, **more)
        return await self.client.post(PATHS[surface], json=body, headers=headers)

    def place(self, run_id: str) -> RunPlace:
        """Return where a run is kept."""
        return RunPlace(self.mill.resources.keys, TENANT, run_id)

    async def log(self, run_id: str) -> list[LogEvent]:
        """Return the run's events so far."""
        names = self.mill.resources.keys.run(TENANT, run_id)
        return await self.mill.resources.log.read(names, limit=10_000)


@asynccontextmanager
async def whole(
    redis_url: str,
    script: Script | Told,
    *callbacks: Any,
    told: GatewaySettings | None = None,
    workers: int = 1,
    protocol: Surface = Surface.MESSAGES,
    deployment: dict[str, Any] | None = None,
) -> AsyncGenerator[Whole]:
    """Serve the gateway while the block runs."""
    ours = settings(namespace="t", redis_url=SecretStr(redis_url))
    gateway_settings = told or GatewaySettings()
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(upstream(script))
        resolve = ports(up, protocol, **(deployment or {}))
        stack.enter_context(
            named_models({name: partial(resolve, name) for name in ("main", "other")})
        )
        gateway = Gateway(configured_model, callbacks, gateway_settings)
        app = App().beside(GATEWAY, gateway)
        resources = await stack.enter_async_context(open_resources(ours))
        mill = Mill(resources.link, app, ours, resources)
        stack.push_async_callback(mill.close)
        for _ in range(workers):
            await mill.worker("runs")
        api = create_app(ours, app=App(), watch=Watch(gateway_settings, callbacks))
        live = await stack.enter_async_context(served(api))
        client = httpx.AsyncClient(base_url=live.url, timeout=20)
        yield Whole(await stack.enter_async_context(client), up, mill)


def frames_of(text: str) -> list[tuple[str, str]]:
    """Return the frames of a stream: names and data; a comment is a frame without data."""
    frames: list[tuple[str, str]] = []
    for frame in text.split("\n\n"):
        lines = [line.partition(": ")[::2] for line in frame.splitlines() if line]
        told = dict(lines)
        if lines:
            frames.append((told.get("event", ""), told.get("data", "")))
    return frames
