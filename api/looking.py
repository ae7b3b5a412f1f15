"""Looking: which agents there are, how the queues stand, who works."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from worker.looking import look_at_queues, look_at_workers

from .deps import AtDesk
from .desk import promptly

router = APIRouter(prefix="/v1")


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
    """List the workers that are alive, with what they say of themselves."""
    resources = desk.office.resources
    views = await promptly(look_at_workers(resources.link, resources.keys))
    return {"workers": [{**view.about, "id": view.id, "queues": view.queues} for view in views]}
