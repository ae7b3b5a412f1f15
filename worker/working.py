"""What a worker's jobs work with: the resources of every process, the app, and the worker's ear."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from loops.app import App
from loops.tasks import Owner

from .hook_desk import keep_time
from .nudges import Nudges
from .pace import Pace
from .resources import Resources


@dataclass(frozen=True, slots=True)
class WorkerResources(Resources):
    """What a worker's jobs use besides."""

    app: App
    nudges: Nudges
    pace: Pace


@asynccontextmanager
async def working(
    resources: Resources, *, app: App, worker_id: str
) -> AsyncGenerator[WorkerResources]:
    """Open what a worker's jobs use: they hear of answers while the block runs."""
    nudges = Nudges(resources.link.client, resources.keys.owner(worker_id))
    services = Owner()
    services.start(nudges.listen(), name="nudges")
    services.start(keep_time(resources.link, resources.keys.timers), name="timers")
    try:
        yield WorkerResources(
            settings=resources.settings,
            keys=resources.keys,
            link=resources.link,
            runs=resources.runs,
            sessions=resources.sessions,
            hooks=resources.hooks,
            log=resources.log,
            queue=resources.queue,
            app=app,
            nudges=nudges,
            pace=Pace(resources.link, resources.keys, patience=resources.settings.rate_wait),
        )
    finally:
        await services.close()
