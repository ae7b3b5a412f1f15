"""What can be seen of queues and workers from outside, without touching them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from .keys import Keys
from .link import Link


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue, as it stood when it was read."""

    name: str
    depth: int
    """Jobs that are due, and that nobody has."""
    delayed: int
    """Jobs whose time has not come."""
    claimed: int
    """Jobs that a worker has."""
    oldest: timedelta
    """How long the first of the due jobs has been waiting."""
    workers: int
    """Workers alive that serve it."""

    @property
    def is_stuck(self) -> bool:
        """Whether it has jobs and nobody who would take them."""
        return self.depth + self.claimed > 0 and self.workers == 0


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that is alive, and what it says of itself."""

    id: str
    queues: tuple[str, ...]
    about: dict[str, Any]


async def look_at_queues(link: Link, keys: Keys) -> list[QueueView]:
    """Return every queue that was ever used or served, by name."""
    now = await _now(link)
    return [await _queue(link, keys, name, now) for name in await _names(link, keys)]


async def look_at_workers(link: Link, keys: Keys) -> list[WorkerView]:
    """Return every worker that is alive, by id."""
    now = await _now(link)
    served: dict[str, list[str]] = {}
    for name in await _names(link, keys):
        for worker_id in await link.command("ZRANGEBYSCORE", keys.workers(name), now, "+inf"):
            served.setdefault(worker_id.decode(), []).append(name)
    ids = sorted(served)
    records = [link.send("GET", keys.worker(worker_id)) for worker_id in ids]
    return [
        WorkerView(worker_id, tuple(served[worker_id]), orjson.loads(await record or b"{}"))
        for worker_id, record in zip(ids, records, strict=True)
    ]


async def _now(link: Link) -> int:
    seconds, microseconds = await link.command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def _names(link: Link, keys: Keys) -> Sequence[str]:
    return sorted(name.decode() for name in await link.command("SMEMBERS", keys.queues))


async def _queue(link: Link, keys: Keys, name: str, now: int) -> QueueView:
    names = keys.queue(name)
    # A claimed job stands in the queue with the end of its lease, which is past `now`.
    replies = [
        link.send("ZCOUNT", names.queue, "-inf", now),
        link.send("ZCARD", names.queue),
        link.send("ZCARD", names.claims),
        link.send("ZRANGE", names.queue, 0, 0, "WITHSCORES"),
        link.send("ZCOUNT", keys.workers(name), f"({now}", "+inf"),
    ]
    due, all_, claimed, first, workers = [await reply for reply in replies]
    age = max(0, now - int(float(first[1]))) if first else 0
    return QueueView(
        name,
        depth=due,
        delayed=max(0, all_ - due - claimed),
        claimed=claimed,
        oldest=timedelta(milliseconds=age),
        workers=workers,
    )
