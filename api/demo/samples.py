"""Sample logs: a made-up shop's Saturday, in seven formats, always the same to the byte.

Shortly after three in the morning the database runs out of connections. What that does to the
services in front of it is in the files, between lines of ordinary traffic.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol

from .sample_lines import cache, database, java, jobs, nginx_access, nginx_error, payments, python

DAY = datetime(2026, 3, 14, tzinfo=UTC)
OUTAGE = (DAY + timedelta(hours=3, minutes=12), DAY + timedelta(hours=3, minutes=47))

SEED = 20260314


class Line(Protocol):
    """Makes one entry of a log, which may have several lines."""

    def __call__(self, rng: Random, moment: datetime, *, is_outage: bool) -> str:
        """Return the entry for a moment, in an outage or not."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One file to be written."""

    name: str
    line: Line
    entries: int


SAMPLES = (
    *(Sample(f"web/access-{n}.log", nginx_access, 9_000) for n in (1, 2, 3)),
    *(Sample(f"web/error-{n}.log", nginx_error, 1_300) for n in (1, 2, 3)),
    *(Sample(f"shop/shop-{n}.log", python, 3_500) for n in (1, 2, 3, 4, 5)),
    *(Sample(f"payments/payments-{n}.jsonl", payments, 4_000) for n in (1, 2, 3)),
    *(Sample(f"search/search-{n}.log", java, 3_000) for n in (1, 2, 3)),
    *(Sample(f"jobs/jobs-{n}.log", jobs, 3_500) for n in (1, 2, 3)),
    *(Sample(f"system/db-{n}.log", database, 2_200) for n in (1, 2)),
    *(Sample(f"system/cache-{n}.log", cache, 1_600) for n in (1, 2)),
)


def make_samples(folder: Path) -> Path:
    """Write the sample logs into the folder if they are not there, and return the folder.

    They are made beside it and moved in one step, so that a broken-off start leaves no half.
    """
    if folder.is_dir():
        return folder
    beside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    try:
        for sample in SAMPLES:
            _write(beside / sample.name, sample)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _write(path: Path, sample: Sample) -> None:
    rng = Random(f"{SEED}/{sample.name}")  # noqa: S311  # the same logs each time, not secrets
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = (
        sample.line(rng, moment, is_outage=OUTAGE[0] <= moment < OUTAGE[1])
        for moment in _day(rng, sample)
    )
    path.write_text("".join(entries), encoding="utf-8", newline="\n")
    end = (DAY + timedelta(days=1)).timestamp()
    os.utime(path, (end, end))


def _day(rng: Random, sample: Sample) -> list[datetime]:
    """Return as many moments as the file has entries, in order; the outage is busier."""
    length = timedelta(days=1).total_seconds()
    start, end = ((moment - DAY).total_seconds() for moment in OUTAGE)
    usual = (rng.random() * length for _ in range(sample.entries * 9 // 10))
    outage = (start + rng.random() * (end - start) for _ in range(sample.entries // 10))
    return [DAY + timedelta(seconds=second) for second in sorted([*usual, *outage])]
