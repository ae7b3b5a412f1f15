"""Approvals that come with what a person says next: they answer the cards of the session's run.

A key is good for the call that waits, and for no other: what it does not answer it is refused for.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from loops.approval import card_key
from loops.errors import AlreadySettled, HookGone, InvalidInput, UnknownHook, UnknownSession
from loops.question import Answer
from worker.hooks import HookRecord
from worker.new_run import NewRun

from .desk import Desk, promptly

DECLINED = "a person did not approve the call"


async def is_asked_again(desk: Desk, new: NewRun) -> bool:
    """Say whether the request came before under its idempotency key: it has answered then."""
    if new.idempotency is None:
        return False
    resources = desk.office.resources
    name = resources.keys.idempotency(desk.tenant, new.idempotency[0])
    return bool(await promptly(resources.link.command("EXISTS", name)))


def refuse_conflict(on_conflict: str | None) -> None:
    """Pass if a request that answers calls lets their run go on.

    Raises:
        InvalidInput: When it would end that run, or be refused because of it.
    """
    if on_conflict in {"reject", "interrupt", "rollback"}:
        raise InvalidInput(
            f"approvals and declined answer calls of the session's run, which on_conflict="
            f"{on_conflict!r} does not let go on; leave one of them out"
        )


async def answer_cards(
    desk: Desk, session_id: str | None, approved: Collection[str], declined: Collection[str]
) -> None:
    """Answer the open approvals of the run that has the session, by the keys of their calls.

    Raises:
        InvalidInput: A key names no call that waits, or is granted and refused; nothing is answered
            then.
    """
    both = sorted(set(approved) & set(declined))
    if both:
        raise InvalidInput(f"the key {both[0]!r} is both among approvals and declined; choose one")
    open_cards = {} if session_id is None else await _cards(desk, session_id)
    unknown = [key for key in (*approved, *declined) if key not in open_cards]
    if unknown:
        raise InvalidInput(
            f"no call with the key {unknown[0]!r} waits in the session {session_id!r}; "
            "GET /v1/hooks?status=open lists what waits"
        )
    for key in (*approved, *declined):
        answer = {"granted": True} if key in approved else _REFUSAL
        # Who was quicker has answered: a hook is answered once.
        with suppress(AlreadySettled, HookGone, UnknownHook):
            given = Answer("resolved", answer)
            await promptly(desk.office.resources.hooks.close(desk.tenant, open_cards[key], given))


_REFUSAL = {"granted": False, "reason": DECLINED}


async def _cards(desk: Desk, session_id: str) -> dict[str, HookRecord]:
    """Return the open approvals of the session's run, by the keys of their calls."""
    resources = desk.office.resources
    try:
        session = await promptly(resources.sessions.load(desk.tenant, session_id))
    except UnknownSession:
        return {}
    if session.owner is None:
        return {}
    hooks = await promptly(resources.hooks.open_of(desk.tenant, session.owner))
    return {key: hook for hook in hooks if (key := _key(hook))}


def _key(hook: HookRecord) -> str:
    """Return the key of the call that waits for an approval; empty for any other hook."""
    about = hook.metadata or {}
    tool: Any = about.get("tool")
    arguments: Any = about.get("kwargs")
    is_call = isinstance(tool, str) and isinstance(arguments, dict)
    return card_key(about["tool"], about["kwargs"], hook.call) if is_call else ""
