"""Upkeep: indexes forget the runs and sessions whose keys have expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .keys import Keys
from .link import Link
from .working import WorkerResources

PAGE = 500
"""How many ids are looked up at a time."""


async def prune_indexes(ctx: dict[str, Any]) -> int:
    """Look at every id of every index, and drop those whose record is gone; return how many."""
    resources: WorkerResources = ctx["resources"]
    link, keys = resources.link, resources.keys
    dropped = 0
    for tenant in [name.decode() for name in await link.command("SMEMBERS", keys.tenants)]:
        dropped += await _prune(link, keys.runs(tenant), _run_record(keys, tenant))
        dropped += await _prune(link, keys.sessions(tenant), _session_record(keys, tenant))
    return dropped


def _run_record(keys: Keys, tenant: str) -> Callable[[str], str]:
    return lambda run_id: keys.run(tenant, run_id).record


def _session_record(keys: Keys, tenant: str) -> Callable[[str], str]:
    return lambda session_id: keys.session(tenant, session_id).record


async def _prune(link: Link, index: str, record_of: Callable[[str], str]) -> int:
    """Walk the whole index, oldest first, so that what cannot be dropped hides nothing."""
    start = dropped = 0
    while True:
        page: list[bytes] = await link.command("ZRANGE", index, start, start + PAGE - 1)
        replies = [link.send("EXISTS", record_of(member.decode())) for member in page]
        gone = [member for member, reply in zip(page, replies, strict=True) if not await reply]
        if gone:
            await link.command("ZREM", index, *gone)
        dropped += len(gone)
        start += len(page) - len(gone)
        if len(page) < PAGE:
            return dropped
