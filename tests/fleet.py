"""A small deployment for tests: a real server and real worker processes, which tests may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_WITHIN = 30.0


@dataclass(eq=False)
class Member:
    """One process of the fleet; its output is kept."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def read(self) -> None:
        """Keep what it says, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if " ready: " in line:
                self.ready.set()
        self.ready.set()

    def told(self) -> str:
        return "\n".join(self.lines[-40:])


class Fleet:
    """Starts and ends processes that all use one server."""

    def __init__(self, redis_url: str, *, app: str, environment: Mapping[str, str]) -> None:
        self._environment = {
            **os.environ,
            "LOOPMILL_REDIS_URL": redis_url,
            "LOOPMILL_APP": app,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.members: list[Member] = []

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Member:
        """Start `python -m …`; `ready` is set when it says so."""
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={**self._environment, **(environment or {})},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        member = Member(process)
        threading.Thread(target=member.read, daemon=True).start()
        self.members.append(member)
        return member

    def worker(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Member:
        """Start a worker, and return when it serves."""
        member = self.start("worker", *arguments, environment=environment)
        self.wait(member)
        return member

    def wait(self, member: Member) -> None:
        assert member.ready.wait(READY_WITHIN), f"not ready: {member.told()}"
        assert member.is_alive, f"it ended at once: {member.told()}"

    def close(self) -> None:
        """End all that still runs."""
        for member in self.members:
            if member.is_alive:
                member.kill()
            if member.process.stdout is not None:
                member.process.stdout.close()
