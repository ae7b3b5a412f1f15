"""`GET /v1/models`: what may be asked here, in the shape of the protocol that the caller speaks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from loops.errors import UnknownModel
from loops.gateway.failing import failure_of
from loops.gateway.rounds import Surface
from loops.model import configured_models

from .agent_requests import AGENT
from .deps import AtDesk
from .desk import Desk
from .wording import failed, surface_of

router = APIRouter(prefix="/v1")

STARTED = datetime.now(UTC).replace(microsecond=0)
"""When the models are said to have been made: nobody tells us better."""


@router.get("/models/{name:path}", response_model=None)
async def get_model(name: str, request: Request, desk: AtDesk) -> dict[str, Any] | Response:
    """Return one of the models, or of the agents."""
    is_anthropic = "anthropic-version" in request.headers
    if name not in _names(desk):
        surface = Surface.MESSAGES if is_anthropic else Surface.CHAT
        return failed(surface, failure_of(UnknownModel(name, _names(desk))))
    return _of_anthropic(name) if is_anthropic else _of_openai(name)


@router.get("/models")
async def list_models(request: Request, desk: AtDesk) -> dict[str, Any]:
    """List the configured models, and the agents as `agent/<name>`.

    A caller who sends `anthropic-version` gets Anthropic's shape, any other OpenAI's.
    """
    names = _names(desk)
    if surface_of(request) is not Surface.MESSAGES:
        return {"object": "list", "data": [_of_openai(name) for name in names]}
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
    told = {"first_id": None, "last_id": None, **ends, "has_more": False}
    return {"data": [_of_anthropic(name) for name in names], **told}


def _names(desk: Desk) -> list[str]:
    agents = (f"{AGENT}{name}" for name in sorted(desk.office.app.agents))
    return [*configured_models(), *agents]


def _of_openai(name: str) -> dict[str, Any]:
    created = int(STARTED.timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": "loopmill"}


def _of_anthropic(name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": STARTED.isoformat().replace("+00:00", "Z"),
    }
