"""Upkeep: what nobody else would notice. Late runs expire, and indexes forget what has expired.

It looks at old ids alone: a younger one has its record still.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from .drive import EXPIRED
from .insist import insist
from .keys import Keys
from .link import Link
from .looking import server_time
from .new_run import PATIENCE, SESSION_RETENTION, milliseconds
from .run_record import RunStatus
from .working import WorkerResources

PAGE = 500
"""How many ids are looked up at a time."""


async def keep_up(ctx: dict[str, Any]) -> None:
    """Do all upkeep once."""
    await expire_late_runs(ctx)
    await prune_indexes(ctx)


async def expire_late_runs(ctx: dict[str, Any]) -> int:
    """Settle each run whose time to start is over, whoever might claim it; return how many."""
    resources: WorkerResources = ctx["resources"]
    link, keys = resources.link, resources.keys
    until = await server_time(link) - milliseconds(PATIENCE)
    expired = 0
    for tenant in await _tenants(link, keys):
        start, page = 0, await _page(link, keys.runs(tenant), until, 0)
        while page:
            expired += await _expire(link, list(map(_run_record(keys, tenant), page)))
            start += len(page)
            page = await _page(link, keys.runs(tenant), until, start)
    return expired


async def _expire(link: Link, records: list[str]) -> int:
    """Settle those of the runs that are queued; the script knows whether their time is over."""
    statuses = await link.all(("HGET", record, "status") for record in records)
    queued = RunStatus.QUEUED.encode()
    late = [each for each, status in zip(records, statuses, strict=True) if status == queued]
    told = [orjson.dumps([{"type": "run.expired", "data": EXPIRED}]), orjson.dumps(EXPIRED)]
    return sum([await insist(link, "expire_run", keys=[each], arguments=told) for each in late])


async def prune_indexes(ctx: dict[str, Any]) -> int:
    """Drop each id whose record is gone; return how many."""
    resources: WorkerResources = ctx["resources"]
    link, keys, retention = resources.link, resources.keys, resources.settings.retention
    now = await server_time(link)
    dropped = 0
    for tenant in await _tenants(link, keys):
        for index, record_of, kept in (
            (keys.runs(tenant), _run_record(keys, tenant), retention),
            (keys.sessions(tenant), _session_record(keys, tenant), SESSION_RETENTION),
        ):
            dropped += await _prune(link, index, record_of, now - milliseconds(kept))
    return dropped


async def _prune(link: Link, index: str, record_of: Callable[[str], str], until: int) -> int:
    """Walk the old part of an index, so that what cannot be dropped hides nothing."""
    start, dropped, page = 0, 0, await _page(link, index, until, 0)
    while page:
        found = await link.all(("EXISTS", record_of(each)) for each in page)
        gone = [each for each, is_there in zip(page, found, strict=True) if not is_there]
        if gone:
            await link.command("ZREM", index, *gone)
        dropped += len(gone)
        start += len(page) - len(gone)
        page = await _page(link, index, until, start)
    return dropped


async def _page(link: Link, index: str, until: int, start: int) -> list[str]:
    """Return the next of the ids whose score is at most `until`."""
    window = ("-inf", until, "LIMIT", start, PAGE)
    return [each.decode() for each in await link.command("ZRANGEBYSCORE", index, *window)]


async def _tenants(link: Link, keys: Keys) -> list[str]:
    return [name.decode() for name in await link.command("SMEMBERS", keys.tenants)]


def _run_record(keys: Keys, tenant: str) -> Callable[[str], str]:
    return lambda run_id: keys.run(tenant, run_id).record


def _session_record(keys: Keys, tenant: str) -> Callable[[str], str]:
    return lambda session_id: keys.session(tenant, session_id).record
