"""What can be seen of queues and workers from outside, without touching them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from .keys import Keys
from .link import Link
from .wire import Part, Reply


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
    now = await server_time(link)
    names = await _names(link, keys)
    asked = [question for name in names for question in _questions(keys, name, now)]
    replies = iter(await link.all(asked))
    return [_queue(name, now, [next(replies) for _ in range(QUESTIONS)]) for name in names]


async def look_at_workers(link: Link, keys: Keys) -> list[WorkerView]:
    """Return every worker that is alive, by id."""
    now = await server_time(link)
    served: dict[str, list[str]] = {}
    names = await _names(link, keys)
    alive = await link.all(("ZRANGEBYSCORE", keys.workers(name), now, "+inf") for name in names)
    for name, worker_ids in zip(names, alive, strict=True):
        for worker_id in worker_ids:
            served.setdefault(worker_id.decode(), []).append(name)
    ids = sorted(served)
    records = await link.all(("GET", keys.worker(worker_id)) for worker_id in ids)
    return [
        WorkerView(worker_id, tuple(served[worker_id]), orjson.loads(record or b"{}"))
        for worker_id, record in zip(ids, records, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model that was asked of late, and how its provider's limits stand."""

    account: str
    model: str
    requests: int
    """How many requests were let go in the last minute."""
    tokens: int
    """How many tokens these took, as far as it is known."""
    paused: timedelta
    """For how long nobody asks with the account's key."""
    limited: int
    """How often the provider turned a request of the account away, in the last day."""


async def look_at_models(link: Link, keys: Keys) -> list[ModelView]:
    """Return every model that was asked in the last day, by account and name."""
    now = await server_time(link)
    members = await link.command("ZRANGEBYSCORE", keys.providers, now - DAY, "+inf")
    names = sorted((str(account), str(model)) for account, model in map(orjson.loads, members))
    asked = [
        ("HGETALL", key)
        for account, model in names
        for key in (keys.account(account), keys.window(account, model))
    ]
    replies = iter([_hash(reply) for reply in await link.all(asked)])
    return [_model(account, model, now, next(replies), next(replies)) for account, model in names]


def _hash(reply: Sequence[bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in zip(*[iter(reply)] * 2, strict=True)}


def _model(
    account: str, model: str, now: int, pause: dict[str, int], window: dict[str, int]
) -> ModelView:
    since = now // 1000 - MINUTE
    counts = Counter[str]()
    for name, count in window.items():
        if int(name[1:]) > since:
            counts[name[0]] += count
    paused = timedelta(milliseconds=max(0, pause.get("until", 0) - now))
    return ModelView(
        account, model, counts["r"], counts["t"], paused, limited=pause.get("limited", 0)
    )


MINUTE = 60
DAY = 86_400_000
"""Milliseconds for which a model is shown that nobody asks any more."""


async def server_time(link: Link) -> int:
    """Return the milliseconds since the epoch by Redis' clock, the only one that counts."""
    seconds, microseconds = await link.command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def _names(link: Link, keys: Keys) -> Sequence[str]:
    return sorted(name.decode() for name in await link.command("SMEMBERS", keys.queues))


QUESTIONS = 5
"""How many commands tell how a queue stands."""


def _questions(keys: Keys, name: str, now: int) -> list[tuple[Part, ...]]:
    names = keys.queue(name)
    # A claimed job stands in the queue with the end of its lease, which is past `now`.
    return [
        ("ZCOUNT", names.queue, "-inf", now),
        ("ZCARD", names.queue),
        ("ZCARD", names.claims),
        ("ZRANGE", names.queue, 0, 0, "WITHSCORES"),
        ("ZCOUNT", keys.workers(name), f"({now}", "+inf"),
    ]


def _queue(name: str, now: int, replies: Sequence[Reply]) -> QueueView:
    due, all_, claimed, first, workers = replies
    age = max(0, now - int(float(first[1]))) if first else 0
    return QueueView(
        name,
        depth=due,
        delayed=max(0, all_ - due - claimed),
        claimed=claimed,
        oldest=timedelta(milliseconds=age),
        workers=workers,
    )
