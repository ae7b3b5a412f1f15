"""Lists runs in a terminal: a line for each, and how many there are of each status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from .client import Client
from .telling import in_a_line, reason_of

ORDER = ("queued", "running", "waiting", "completed", "failed", "cancelled", "expired")


def list_runs(
    client: Client, *, status: str | None, limit: int, say: Callable[[str], object]
) -> None:
    """Say the newest runs, at most `limit` of them, and the counts of all.

    Raises:
        ApiError: When the API refuses or cannot be reached.
    """
    counts = Counter[str]()
    for run in client.runs(status=status):
        counts[run["status"]] += 1
        if counts.total() <= limit:
            say(_line(run))
    hidden = counts.total() - limit
    if limit and hidden > 0:
        say(f"… and {hidden:,} older, see --limit")
    say(_counted(counts))


def _line(run: dict[str, Any]) -> str:
    created = datetime.fromisoformat(run["created_at"]).astimezone()
    error = run["error"]
    why = "" if error is None else f"  {in_a_line(reason_of(error))}"
    return f"{run['id']}  {created:%m-%d %H:%M:%S}  {run['status']:<9}  {run['agent']}{why}"


def _counted(counts: Counter[str]) -> str:
    known = [f"{counts[status]:,} {status}" for status in ORDER if counts[status]]
    return ", ".join(known) or "no runs"
