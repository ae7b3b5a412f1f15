"""Reads one log file from end to end, and counts its errors by their expressions.

A file is read once, line by line, so it may be larger than memory. Lines end as grep sees them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from .expressions import readings

MOST_KINDS = 150
"""How many kinds of error one scan names; the rarer ones are counted as unlisted."""

LONGEST_EXAMPLE = 300

_TIME = re.compile(
    rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)"
    rb"|(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d:\d\d:\d\d)"
    rb"|([A-Z][a-z]{2}) +(\d\d?) (\d\d:\d\d:\d\d)"
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

Progress = Callable[[int, float], None]
"""Told now and then how many lines were read, and which part of the file (0 to 1)."""


@dataclass(slots=True)
class Kind:
    """The lines of one file that match one expression."""

    expression: str
    title: str
    example: str
    count: int = 0
    first: str | None = None
    last: str | None = None
    minutes: dict[str, int] = field(default_factory=dict[str, int])
    """How many fell into each minute of the clock."""

    def add(self, time: str | None) -> None:
        """Count one more line, written at the time if that is known."""
        self.count += 1
        if time is None:
            return
        self.first = min(self.first or time, time)
        self.last = max(self.last or time, time)
        self.minutes[time[:16]] = self.minutes.get(time[:16], 0) + 1


@dataclass(slots=True)
class Scan:
    """What one file holds."""

    lines: int = 0
    size: int = 0
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])


def scan(path: Path, progress: Progress) -> Scan:
    """Count the errors of the file by expression.

    A line without a time of its own (of a traceback, say) has that of the line before it.
    """
    found = Scan(size=path.stat().st_size)
    clock = Clock(_year(path))
    for line in lines_of(path, progress):
        found.lines += 1
        clock.see(line)
        for reading in readings(line):
            kind = found.kinds.get(reading.expression)
            if kind is None:
                kind = Kind(reading.expression, reading.title, text_of(line))
                found.kinds[reading.expression] = kind
            kind.add(clock.time())
    return found


def count_matches(path: Path, expressions: list[str], progress: Progress) -> list[Kind]:
    """Count the lines of the file that match each of the expressions, in their order."""
    kinds = [Kind(expression, "", "") for expression in expressions]
    patterns = [re.compile(expression.encode("latin-1")) for expression in expressions]
    clock = Clock(_year(path))
    for line in lines_of(path, progress):
        clock.see(line)
        for kind, pattern in zip(kinds, patterns, strict=True):
            if pattern.search(line):
                kind.example = kind.example or text_of(line)
                kind.add(clock.time())
    return kinds


def lines_of(path: Path, progress: Progress) -> Iterator[bytes]:
    """Yield the lines without their ends, and tell each 2,000 lines how far it is.

    Raises:
        ValueError: When the file turns out to be no text.
    """
    size, place = max(path.stat().st_size, 1), 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            place += len(line)
            if b"\0" in line:
                raise ValueError(f"{path.name!r} is no text: line {number} has a byte of zero")
            if number % 2_000 == 0:
                progress(number, min(place / size, 1.0))
            yield line.removesuffix(b"\n")


def text_of(line: bytes) -> str:
    """Return the line as text, cut where it gets long."""
    text = line.decode("utf-8", "replace")
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"


class Clock:
    """The time of the line seen last, or of the last one before it that had a time."""

    def __init__(self, year: int) -> None:
        self._year = year
        """For syslog, which writes none."""
        self._seen: re.Match[bytes] | None = None

    def see(self, line: bytes) -> None:
        """Look for a time near the beginning of the line."""
        self._seen = _TIME.search(line, 0, 120) or self._seen

    def time(self) -> str | None:
        """Return the time as `2026-03-14T03:12:00`, as the log wrote it, whatever its zone."""
        if self._seen is None:
            return None
        parts = [part.decode("ascii") if part else "" for part in self._seen.groups()]
        if parts[0]:
            return f"{parts[0]}-{parts[1]}-{parts[2]}T{parts[3]}"
        if parts[4]:
            return _time(int(parts[6]), parts[5], parts[4], parts[7])
        return _time(self._year, parts[8], parts[9], parts[10])


def _time(year: int, month: str, day: str, clock: str) -> str | None:
    if month not in _MONTHS:
        return None
    return f"{year:04d}-{_MONTHS.index(month) + 1:02d}-{int(day):02d}T{clock}"


def _year(path: Path) -> int:
    """Return the year in which the file was last written, at its last line, so to say."""
    return datetime.fromtimestamp(path.stat().st_mtime - 1, UTC).year
