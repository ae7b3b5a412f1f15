"""The processes that a benchmark starts: each in a group of its own, all ended at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from .measuring import ROOT

STOP_WITHIN = 5.0


class BenchError(RuntimeError):
    """Something that is measured did not do its work; the text says what, and its last lines."""


@dataclass(eq=False)
class Running:
    """One process; its lines are kept, and its answers can be asked for."""

    name: str
    popen: subprocess.Popen[str]
    log: Path
    lines: SimpleQueue[str | None] = field(default_factory=SimpleQueue)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def read(self) -> None:
        for line in self.popen.stdout or ():
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def wait_for(self, text: str, within: float = 30.0) -> str:
        """Return the first line that has the text in it.

        Raises:
            BenchError: When the process ends before, or it takes too long.
        """
        while text not in (line := self._next(within)):
            continue
        return line

    def ask(self, question: str, within: float = 300.0, **details: Any) -> dict[str, Any]:
        """Send a line of JSON, and return the line of JSON that answers it.

        Raises:
            BenchError: When there is no answer.
        """
        if self.popen.stdin is None:
            raise BenchError(f"{self.name} was started without an input; it cannot be asked")
        with suppress(BrokenPipeError):  # the answer that does not come tells more
            self.popen.stdin.write(json.dumps({"ask": question, **details}) + "\n")
            self.popen.stdin.flush()
        answer: dict[str, Any] = json.loads(self._next(within))
        return answer

    def check(self) -> None:
        """See whether it lives.

        Raises:
            BenchError: When it does not.
        """
        if self.popen.poll() is not None:
            raise BenchError(f"{self.name} ended with code {self.popen.returncode}: {self.told()}")

    def told(self) -> str:
        return "\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """End it and all that it started: politely, then at once."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(STOP_WITHIN)
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _next(self, within: float) -> str:
        try:
            line = self.lines.get(timeout=within)
        except Empty as error:
            raise BenchError(f"{self.name} said nothing for {within:g} s: {self.told()}") from error
        if line is None:
            self.popen.wait(STOP_WITHIN)
            raise BenchError(f"{self.name} ended with code {self.popen.returncode}: {self.told()}")
        return line


class Processes:
    """Starts processes, and ends all of them when its `with` ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: Path = ROOT,
    ) -> Running:
        """Start a command in a folder; what it says as an error goes to a file of its own."""
        log = self._folder / f"{name.replace(' ', '-')}-{len(list(self._folder.iterdir()))}.log"
        with log.open("w") as errors:
            popen = subprocess.Popen(
                command,
                cwd=folder,
                env={**clean_environment(), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        running = Running(name, popen, log)
        threading.Thread(target=running.read, name=f"lines of {name}", daemon=True).start()
        self._running.append(running)
        return running

    def stop(self) -> None:
        """End all of them."""
        while self._running:
            self._running.pop().stop()


def clean_environment() -> dict[str, str]:
    """Return this process' environment without anybody's settings of Loopmill."""
    kept = {name: value for name, value in os.environ.items() if "LOOPMILL" not in name}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
