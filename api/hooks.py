"""Hooks over HTTP: what runs wait for, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from jsonschema import Draft202012Validator

from loops.errors import InvalidInput
from loops.question import Answer
from worker.hooks import HookRecord

from .deps import AtDesk
from .desk import Desk, promptly
from .hook_schemas import HookClosed, HookList, HookView
from .limits import read_json

router = APIRouter(prefix="/v1")

FAULTS = 5
"""How many faults of an answer are told."""

CURSOR = 400
"""How many characters the cursor of a page may have."""


@router.get("/hooks")
async def list_hooks(
    desk: AtDesk,
    status: Literal["open"] = "open",
    after: Annotated[str | None, Query(max_length=CURSOR)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> HookList:
    """List the open hooks of all the caller's runs, the oldest first."""
    del status  # there is no index of closed ones
    page = await promptly(desk.office.resources.hooks.page(desk.tenant, after=after, limit=limit))
    return HookList(hooks=[HookView.of(hook) for hook in page.hooks], next=page.next)


@router.get("/runs/{run_id}/hooks/{label}")
async def get_hook(run_id: str, label: str, desk: AtDesk) -> HookView:
    """Return the last hook of the label."""
    return HookView.of(await _hook(desk, run_id, label))


@router.post("/runs/{run_id}/hooks/{label}")
async def resolve_hook(
    run_id: str,
    label: str,
    request: Request,
    desk: AtDesk,
    id: Annotated[str | None, Query(max_length=CURSOR)] = None,  # noqa: A002 - the name on the wire
) -> HookClosed:
    """Answer a hook; the body is the answer. With `?id=` only that very hook is answered."""
    hook = await _hook(desk, run_id, label, id)
    data: Any = await read_json(request)
    _refuse_misfit(hook, data)
    return await _close(desk, hook, Answer("resolved", data))


@router.delete("/runs/{run_id}/hooks/{label}")
async def cancel_hook(
    run_id: str,
    label: str,
    desk: AtDesk,
    reason: Annotated[str | None, Query(max_length=1000)] = None,
) -> HookClosed:
    """Close a hook without an answer; the run hears of it and goes on."""
    return await _close(desk, await _hook(desk, run_id, label), Answer("cancelled", reason=reason))


def _refuse_misfit(hook: HookRecord, data: object) -> None:
    """Refuse what does not fit the schema of the hook's answer.

    Raises:
        InvalidInput: It does not.
    """
    # The library's own types know too little of what JSON is.
    validator: Any = Draft202012Validator(hook.payload)
    faults = sorted(validator.iter_errors(data), key=lambda fault: fault.json_path)
    if faults:
        told = "; ".join(f"{each.json_path}: {each.message[:200]}" for each in faults[:FAULTS])
        raise InvalidInput(f"this is no answer to the hook {hook.label!r}: {told}")


async def _hook(desk: Desk, run_id: str, label: str, key: str | None = None) -> HookRecord:
    await desk.run(run_id)
    hook = await promptly(desk.office.resources.hooks.load(desk.tenant, run_id, label))
    if key is not None and key != hook.id:
        raise InvalidInput(f"the hook {label!r} that is open now is {hook.id!r}, not {key[:100]!r}")
    return hook


async def _close(desk: Desk, hook: HookRecord, answer: Answer) -> HookClosed:
    await promptly(desk.office.resources.hooks.close(desk.tenant, hook, answer))
    return HookClosed(run_id=hook.run_id, label=hook.label, id=hook.id, status=answer.status)
