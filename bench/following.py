"""Waiting for a run's end without standing in its way, and reading its log then."""

from __future__ import annotations

import asyncio

from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.resources import Resources
from worker.run_record import RunRecord, RunStatus

LOOK_EACH = 0.02
"""Seconds between two looks at the record. Whoever reads a log live is woken by each of its events,
and takes a good part of a small machine from what is measured."""


async def finished(resources: Resources, tenant: str, run_id: str) -> RunRecord:
    """Return the run's record once it has completed; its times are of the server's clock, in ms.

    Raises:
        SystemExit: When it ended otherwise: figures of failures mean nothing.
    """
    while True:
        record = await resources.runs.load(tenant, run_id)
        if record.is_settled:
            break
        await asyncio.sleep(LOOK_EACH)
    if record.status is not RunStatus.COMPLETED:
        raise SystemExit(f"run {run_id} is {record.status}: {record.error}")
    return record


async def events_of(resources: Resources, tenant: str, run_id: str) -> list[LogEvent]:
    """Return all events of a run, once it has completed.

    Raises:
        SystemExit: When it ended otherwise.
    """
    await finished(resources, tenant, run_id)
    keys = resources.keys.run(tenant, run_id)
    events = await resources.log.read(keys, after=0)
    while events[-1].type not in TERMINAL_EVENTS:
        events += await resources.log.read(keys, after=events[-1].seq)
    return events
