"""Counting jobs where they run: a file that all workers and the benchmark have in memory.

The first byte is a gate. Jobs that come while it is closed wait, so that every worker is up and
holds jobs when the clock starts; then a job does nothing but count.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

PATH, SLOT = "BENCH_TALLY", "BENCH_SLOT"
SLOTS, FIRST, SIZE = 8, 64, 64
LOOK_EACH = 0.005
_FIELDS = struct.Struct("qqd")


@dataclass(frozen=True)
class Counts:
    """What one worker has done."""

    held: int
    """Jobs that waited before the gate."""
    done: int
    last: float
    """When the last one was done, by `time.time()`."""


@dataclass(eq=False)
class Tally:
    """The file, seen by one process."""

    path: Path
    slot: int = 0
    held: int = 0
    done: int = 0
    is_open: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), FIRST + SLOTS * SIZE)

    def gate_opens(self) -> bool:
        """Say whether the gate is open; it is not closed again."""
        self.is_open = self.is_open or self._map[0] == 1
        return self.is_open

    def open_gate(self) -> float:
        """Open the gate, and return the time."""
        now = time.time()
        self._map[0] = 1
        return now

    def hold(self) -> None:
        """Count a job that waits."""
        with self._lock:
            self.held += 1
            self._write(0.0)

    def count(self) -> None:
        """Count a job that is done."""
        with self._lock:
            self.done += 1
            self._write(time.time())

    def _write(self, last: float) -> None:
        _FIELDS.pack_into(self._map, FIRST + self.slot * SIZE, self.held, self.done, last)

    def read(self) -> list[Counts]:
        """Return what all workers have done."""
        return [
            Counts(*_FIELDS.unpack_from(self._map, FIRST + slot * SIZE)) for slot in range(SLOTS)
        ]


def make_tally(path: Path) -> Tally:
    """Make a file whose gate is closed and whose counts are 0."""
    path.write_bytes(bytes(FIRST + SLOTS * SIZE))
    return Tally(path)


_opened: list[Tally] = []


def mine() -> Tally:
    """Return this process' view, opened at its first job: after a fork, not before."""
    if not _opened:
        _opened.append(Tally(Path(os.environ[PATH]), int(os.environ[SLOT])))
    return _opened[0]


async def work() -> None:
    """Be the job that does nothing, for workers that await."""
    tally = mine()
    if not tally.is_open:
        tally.hold()
        while not tally.gate_opens():  # noqa: ASYNC110  # another process opens it
            await asyncio.sleep(LOOK_EACH)
    tally.count()


def work_in_thread() -> None:
    """Be the same job, for workers that do not."""
    tally = mine()
    if not tally.is_open:
        tally.hold()
        while not tally.gate_opens():
            time.sleep(LOOK_EACH)
    tally.count()
