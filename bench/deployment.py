"""Loopmill as it is deployed: API and workers as processes, with the agents that are measured."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from worker.settings import Settings

from .processes import Processes, Running

APP = "bench.agents:app"
TENANT = "default"


@dataclass(frozen=True)
class Deployment:
    """Starts processes that share one server."""

    url: str
    processes: Processes
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the names of environment variables."""

    @property
    def environment(self) -> dict[str, str]:
        return {"LOOPMILL_REDIS_URL": self.url, "LOOPMILL_APP": APP, **self.settings}

    def read_settings(self) -> Settings:
        """Return the settings with which the processes run."""
        return Settings.from_env(self.environment)

    def workers(self, queue: str, concurrency: int, count: int = 1) -> list[Running]:
        """Start workers, and return when all of them serve."""
        slots = ("--concurrency", str(concurrency))
        started = [self._start(f"{queue} worker", "worker", queue, *slots) for _ in range(count)]
        for worker in started:
            worker.wait_for(" ready: ")
        return started

    def api(self) -> tuple[Running, int]:
        """Start an API, and return it with its port when it serves."""
        api = self._start("api", "api", "api", "--port", "0")
        address = urlsplit(api.wait_for("api ready: ").split()[-1])
        return api, address.port or 0

    def _start(self, name: str, *arguments: str) -> Running:
        return self.processes.start(name, [sys.executable, "-m", *arguments], self.environment)
