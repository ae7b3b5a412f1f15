"""Processes that end with the one that started them, each in a group of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from types import TracebackType

READY_WITHIN = timedelta(seconds=20)
STOP_WITHIN = timedelta(seconds=4)
"""How long a process may take to end before it is asked a second time, and then killed."""

LAST_LINES = 12

READY = re.compile(r"loopmill \w+ ready: ")
"""What our processes print once they serve."""

Listener = Callable[[str, str], None]
"""Gets a process' name and a line that it printed."""


class ChildError(Exception):
    """A process ended that should go on; the text has its last lines."""


class Child:
    """One running process, and the last lines that it printed."""

    def __init__(self, name: str, popen: subprocess.Popen[str], listener: Listener | None) -> None:
        self.name = name
        self.popen = popen
        self.lines: deque[str] = deque(maxlen=500)
        self.was_ready = False
        """Whether it has said that it serves."""
        self._listener = listener
        self._reader = Thread(target=self._read, name=f"lines of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process' number, which is its group's as well."""
        return self.popen.pid

    def printed(self, pattern: str) -> re.Match[str] | None:
        """Return the match of the first line that matches the pattern."""
        return next(filter(None, (re.match(pattern, line) for line in list(self.lines))), None)

    @property
    def ending(self) -> str | None:
        """How it ended: `code 1`, `SIGKILL`; None while it runs."""
        code = self.popen.poll()
        if code is None:
            return None
        return signal.Signals(-code).name if code < 0 else f"code {code}"

    def last_lines(self) -> str:
        """Return the end of what it printed, indented; all of it, when it has ended."""
        if self.popen.poll() is not None:
            self._reader.join(timeout=1)
        lines = list(self.lines)[-LAST_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (it printed nothing)"

    def close(self) -> None:
        """Wait for its end, and let its output go."""
        self.popen.wait()
        self._reader.join(timeout=1)
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            self.lines.append(line.rstrip("\n"))
            self.was_ready = self.was_ready or READY.match(line) is not None
            if self._listener is not None:
                self._listener(self.name, self.lines[-1])


class Children:
    """Starts processes, sees whether they live, and ends all of them at the end of its `with`."""

    def __init__(
        self, listener: Listener | None = None, *, stop_within: timedelta = STOP_WITHIN
    ) -> None:
        self._listener = listener
        self._stop_within = stop_within
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def members(self) -> list[Child]:
        """The processes that were started and not let go of, the newest last."""
        return list(self._children)

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> Child:
        """Start `python arguments…` in the folder, or here, and read what it prints."""
        popen = subprocess.Popen(  # noqa: S603  # our own programs, no shell
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A Ctrl-C in the terminal is for the parent, which ends its children in order.
            start_new_session=True,
        )
        child = Child(name, popen, self._listener)
        self._children.append(child)
        return child

    def wait_ready(
        self, child: Child, pattern: str, *, within: timedelta = READY_WITHIN
    ) -> re.Match[str]:
        """Wait until the process has printed a line that matches the pattern; return the match.

        Raises:
            ChildError: When it, or another one, ends before, or it takes too long.
        """
        deadline = time.monotonic() + within.total_seconds()
        while True:
            self.check()
            found = child.printed(pattern)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise ChildError(
                    f"{child.name} was not ready within {within}:\n{child.last_lines()}"
                )
            time.sleep(0.02)

    def check(self) -> None:
        """See whether all processes live.

        Raises:
            ChildError: When one does not.
        """
        for child in self._children:
            ending = child.ending
            if ending is not None:
                raise ChildError(
                    f"{child.name} (pid {child.pid}) ended with {ending}; its last lines:\n"
                    f"{child.last_lines()}"
                )

    def forget(self, child: Child) -> None:
        """Let go of a process that has ended."""
        child.close()
        self._children.remove(child)

    def stop(self) -> None:
        """End all of them: politely, then a second time, then at once."""
        try:
            for _ in range(2):
                self._signal(signal.SIGTERM)
                if _ended(self._children, within=self._stop_within):
                    return
        finally:
            # Also when a second Ctrl-C cuts the wait short.
            self._signal(signal.SIGKILL)
            for child in self._children:
                child.close()
            self._children.clear()

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.popen.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, number)


def _ended(children: Sequence[Child], *, within: timedelta) -> bool:
    deadline = time.monotonic() + within.total_seconds()
    while any(child.popen.poll() is None for child in children):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
