"""Following a run to its end in its log, as any client of Redis can."""

from __future__ import annotations

from redis.asyncio import Redis

from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.resources import Resources

BLOCK = 1000
"""Milliseconds that one read waits."""


async def followed(
    resources: Resources, tenant: str, run_id: str, *, client: Redis | None = None
) -> list[LogEvent]:
    """Return all events of a run, as soon as its last one is there.

    The wait is a blocking read of the run's stream, on a connection of its own: it adds one
    round trip, and no pause.
    """
    keys = resources.keys.run(tenant, run_id)
    client = client or resources.link.client
    events: list[LogEvent] = []
    cursor = 0
    while not events or events[-1].type not in TERMINAL_EVENTS:
        await client.xread({keys.log: f"{cursor}-0"}, block=BLOCK)
        events += await resources.log.read(keys, after=cursor)
        cursor = events[-1].seq if events else 0
    return events


def checked(events: list[LogEvent]) -> list[LogEvent]:
    """Return the events of a run that completed.

    Raises:
        SystemExit: When it ended otherwise: figures of failures mean nothing.
    """
    if events[-1].type != "run.completed":
        raise SystemExit(f"a run ended as {events[-1].type}: {events[-1].data}")
    return events
