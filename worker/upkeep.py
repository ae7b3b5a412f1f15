"""Upkeep: indexes forget what has expired, and runs that no worker began in time are settled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson

from .drive import EXPIRED
from .insist import insist
from .keys import Keys
from .link import Link
from .new_run import PATIENCE, SESSION_RETENTION, milliseconds
from .working import WorkerResources

PAGE = 500
"""How many ids are looked up at a time."""


async def keep_up(ctx: dict[str, Any]) -> int:
    """Look at the old ids of every index, settle what is late, drop what is gone; return how many.

    An id that is younger than the retention has its record still, and is not looked at.
    """
    resources: WorkerResources = ctx["resources"]
    link, keys = resources.link, resources.keys
    runs = Runs(link, keys, min(resources.settings.retention, PATIENCE))
    sessions = Sessions(link, keys)
    now = await link.command("TIME")
    touched = 0
    for tenant in [name.decode() for name in await link.command("SMEMBERS", keys.tenants)]:
        touched += await _keep(link, runs, tenant)
        touched += await _keep(link, sessions, tenant)
    return touched
