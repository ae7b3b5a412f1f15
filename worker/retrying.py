"""Begin a run again that did not complete: with all that it was answered, and nothing done twice.

A new run takes over the journal of the old one, so its loop comes to where the old one failed, and
goes on from there.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from loops.errors import (
    AlreadySettled,
    IdempotencyConflict,
    QueueFull,
    SessionBusy,
    SessionMovedOn,
    StillRunning,
    UnknownRun,
)

from .carrying import Ended, counted, read_ended
from .keys import Keys
from .link import Link
from .new_run import Created, NewPlace, NewRun, plan_run
from .run_record import RunRecord, RunStatus
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Changes:
    """What a run that is begun again has otherwise than the one before."""

    timeout: timedelta | None = None
    budget: dict[str, Any] | None = None
    idempotency: tuple[str, str] | None = None
    """Digests of the idempotency key and of the request's body."""


async def retry(
    link: Link, keys: Keys, settings: Settings, run: tuple[str, str], changes: Changes
) -> Created:
    """Make a run that goes on where the run, by tenant and id, has stopped.

    Raises:
        UnknownRun: This tenant has no such run.
        StillRunning: It has not ended.
        AlreadySettled: It has completed.
        IdempotencyConflict: The key came before with another body.
        SessionBusy: Another run has its session.
        SessionMovedOn: Another run has had its session since.
        QueueFull: The queue has reached the depth limit.
    """
    names = keys.run(*run)
    ended = await read_ended(link, names)
    if ended is None:
        raise UnknownRun(f"there is no run {run[1]!r}")
    before = ended.run
    # What is read of a run that has not ended is old at once.
    _refuse_unended(before)
    place = NewPlace(before.tenant, f"run_{secrets.token_hex(16)}", before.session_id)
    planned = plan_run(keys, settings, place, _new(ended, changes))
    arguments = counted([*planned, *ended.carried()])
    code, about = await link.run("retry_run", [names.record], arguments)
    _refuse(code, about.decode(), before, settings)
    return Created(about.decode(), place.session_id, RunStatus.QUEUED, is_new=code == 1)


def _refuse_unended(before: RunRecord) -> None:
    if before.status is RunStatus.COMPLETED:
        raise AlreadySettled(f"run {before.id!r} is completed; there is nothing to begin again")
    if not before.is_settled:
        raise StillRunning(f"run {before.id!r} has not ended; cancel it, then begin it again")


def _new(ended: Ended, changes: Changes) -> NewRun:
    before = ended.run
    return NewRun(
        agent=before.agent,
        messages=ended.said,
        session_id=before.session_id,
        timeout=changes.timeout or before.timeout,
        metadata=before.metadata,
        budget=changes.budget or before.budget,
        idempotency=changes.idempotency,
        retry_of=before.id,
        origin=before.origin,
    )


def _refuse(code: int, about: str, before: RunRecord, settings: Settings) -> None:
    match code:
        case 1 | 2:
            return
        case 3:
            raise IdempotencyConflict.of(about)
        case 0:
            _refuse_unended(before)
        case 4:
            raise SessionBusy(before.session_id, about)
        case 5:
            raise QueueFull(
                f"{about} holds {settings.queue_depth!r} runs, the limit; try again later",
                retry_after=timedelta(seconds=5),
            )
        case 7:
            raise SessionMovedOn(before.session_id, before.id)
        case _:
            pass
    raise UnknownRun(f"there is no run {before.id!r}")
