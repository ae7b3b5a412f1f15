"""Looking: which agents there are, how the queues stand, who works."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from worker.looking import WorkerView, look_at_queues, look_at_workers

from .auth import DEFAULT_TENANT
from .deps import AtDesk
from .desk import promptly

router = APIRouter(prefix="/v1")

OF_THE_HOUSE = frozenset({"host", "pid"})
"""What a worker says of its machine, which is no other tenant's affair."""


@router.get("/agents")
async def list_agents(desk: AtDesk) -> dict[str, Any]:
    """List the agents that a run may name, with their tools."""
    app = desk.office.app
    agents = [{"name": name, "tools": sorted(app.tools_of(name))} for name in sorted(app.agents)]
    return {"agents": agents}


@router.get("/queues")
async def list_queues(desk: AtDesk) -> dict[str, Any]:
    """List the queues: jobs that wait, jobs that somebody has, and workers."""
    resources = desk.office.resources
    views = await promptly(look_at_queues(resources.link, resources.keys))
    queues = [
        {
            "name": view.name,
            "depth": view.depth,
            "delayed": view.delayed,
            "claimed": view.claimed,
            "oldest": view.oldest.total_seconds(),
            "workers": view.workers,
        }
        for view in views
    ]
    return {"queues": queues}


@router.get("/workers")
async def list_workers(desk: AtDesk) -> dict[str, Any]:
    """List the workers that are alive, with what they say of themselves.

    Where they run is told to the default tenant alone, whose callers run the server.
    """
    resources = desk.office.resources
    views = await promptly(look_at_workers(resources.link, resources.keys))
    hidden = frozenset[str]() if desk.tenant == DEFAULT_TENANT else OF_THE_HOUSE
    return {"workers": [_shown(view, hidden) for view in views]}


def _shown(view: WorkerView, hidden: frozenset[str]) -> dict[str, Any]:
    about = {name: value for name, value in view.about.items() if name not in hidden}
    return {**about, "id": view.id, "queues": view.queues}
