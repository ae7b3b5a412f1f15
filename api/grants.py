"""Approvals that come with what a person says next: they answer the cards of the session's run."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from loops.approval import approval_key
from loops.errors import AlreadySettled, HookGone, UnknownHook, UnknownSession
from loops.question import Answer
from worker.hooks import HookRecord

from .desk import Desk, promptly

DECLINED = "a person did not approve the call"


async def answer_cards(
    desk: Desk, session_id: str, approved: Collection[str], declined: Collection[str]
) -> None:
    """Answer the open approvals of the run that has the session, by the keys of their calls.

    What is answered already stays as it is; a key of no open call is for the new run.
    """
    resources = desk.office.resources
    try:
        session = await promptly(resources.sessions.load(desk.tenant, session_id))
    except UnknownSession:
        return
    if session.owner is None:
        return
    for hook in await promptly(resources.hooks.open_of(desk.tenant, session.owner)):
        key = _key(hook)
        if key in approved or key in declined:
            answer = {"granted": True} if key in approved else _REFUSAL
            with suppress(AlreadySettled, HookGone, UnknownHook):
                given = Answer("resolved", answer)
                await promptly(resources.hooks.close(desk.tenant, hook, given))


_REFUSAL = {"granted": False, "reason": DECLINED}


def _key(hook: HookRecord) -> str:
    """Return the key of the call that waits for an approval; empty for any other hook."""
    about = hook.metadata or {}
    tool: Any = about.get("tool")
    arguments: Any = about.get("kwargs")
    is_call = isinstance(tool, str) and isinstance(arguments, dict)
    return approval_key(about["tool"], about["kwargs"]) if is_call else ""
