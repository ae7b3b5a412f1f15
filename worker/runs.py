"""The runs of all tenants: accept, look up, list, cancel, forget.

What a run's owner writes (events, units, its end) goes through the pass that owns it, not through
here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import orjson

from loops.errors import (
    AlreadySettled,
    IdempotencyConflict,
    InvalidInput,
    QueueFull,
    SessionBusy,
    StillRunning,
    UnknownCall,
    UnknownRun,
    WaitingForHook,
)
from loops.messages import ToolResult

from .keys import Keys
from .link import Link
from .memory import MemoryGuard
from .new_run import Created, NewPlace, NewRun, plan_run
from .retrying import Changes, retry
from .run_record import CallRecord, RunRecord, RunStatus, decode_calls, decode_run, pairs
from .settings import Settings
from .steering import steer

STEER = 8
"""The answer to a new run whose input is to be said to another one."""

LOOKED_AT = 2000
"""How many runs a filtered page may look at."""


@dataclass(frozen=True, slots=True)
class CancelReceipt:
    """What a cancel did."""

    status: RunStatus
    is_settled: bool
    """Whether the run is cancelled; else it is stopping."""
    stopping: list[str]
    """Calls that run now, and are told to stop; a synchronous tool cannot be stopped."""
    cancelled_calls: list[str]
    """Calls that were queued, and never start."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, newest first."""

    runs: list[RunRecord]
    next: str | None
    """The cursor of the page after this one, None at the end."""


class Runs:
    """The store of runs."""

    def __init__(self, link: Link, keys: Keys, settings: Settings) -> None:
        self._link = link
        self._keys = keys
        self._settings = settings
        self._memory = MemoryGuard(link, settings.memory_limit)

    async def create(self, tenant: str, new: NewRun) -> Created:
        """Accept a run: from here on it is never lost.

        Raises:
            IdempotencyConflict: The key came before with another body.
            SessionBusy: The session has a run, and `on_conflict` is "reject".
            WaitingForHook: The session's run waits for a hook, and `on_conflict` is not given.
            QueueFull: The queue, or the session's line, has reached the depth limit.
            MemoryFull: The server is nearly full.
        """
        await self._memory.refuse_when_full()
        run_id = f"run_{secrets.token_hex(16)}"
        session_id = new.session_id or f"ses_{secrets.token_hex(16)}"
        place = NewPlace(tenant, run_id, session_id)
        keys, arguments = plan_run(self._keys, self._settings, place, new)
        code, about, *interrupted = await self._link.run("create_run", keys, arguments)
        if code == STEER:
            return await self._steered(tenant, about.decode(), new)
        created = await self._created(tenant, code, about.decode(), session_id)
        if any(interrupted):
            forgets = new.on_conflict == "rollback"
            with suppress(AlreadySettled, UnknownRun):
                await self.cancel(
                    tenant, interrupted[0].decode(), reason="interrupted", forgets=forgets
                )
        return created

    async def _steered(self, tenant: str, run_id: str, new: NewRun) -> Created:
        """Say a new run's input to the one that has its session, unless that has ended by now."""
        try:
            said = await self.steer(tenant, run_id, new.messages, idempotency=new.idempotency)
        except (AlreadySettled, UnknownRun):
            return await self.create(tenant, new)
        run = await self.load(tenant, said)
        return Created(run.id, run.session_id, run.status, is_new=False)

    async def steer(
        self,
        tenant: str,
        run_id: str,
        messages: Sequence[dict[str, Any]],
        *,
        idempotency: tuple[str, str] | None = None,
    ) -> str:
        """Say the messages to a run, which takes them in before its next turn; see `steer`."""
        run = (tenant, run_id)
        return await steer(self._link, self._keys, run, messages, idempotency=idempotency)

    async def _created(self, tenant: str, code: int, about: str, session_id: str) -> Created:
        match code:
            case 1:
                return Created(about, session_id, RunStatus.QUEUED, is_new=True)
            case 2:
                first = await self.load(tenant, about)
                return Created(first.id, first.session_id, first.status, is_new=False)
            case 3:
                raise IdempotencyConflict.of(about)
            case 4:
                raise SessionBusy(session_id, about)
            case 7:
                raise WaitingForHook(session_id, about)
            case 5:
                raise QueueFull(
                    f"{about} holds {self._settings.queue_depth!r} runs, the limit; "
                    "try again later",
                    retry_after=timedelta(seconds=5),
                )
            case _:
                raise InvalidInput(f"the id {about!r} is taken")

    async def load(self, tenant: str, run_id: str) -> RunRecord:
        """Return the run as it stands.

        Raises:
            UnknownRun: This tenant has no such run.
        """
        found = await self._load(tenant, run_id)
        if found is None:
            raise UnknownRun(f"there is no run {run_id!r}")
        return found

    async def _load(self, tenant: str, run_id: str) -> RunRecord | None:
        found = await self._link.command("HGETALL", self._keys.run(tenant, run_id).record)
        return decode_run(pairs(found)) if found else None

    async def page(
        self,
        tenant: str,
        *,
        before: str | None = None,
        limit: int = 50,
        status: RunStatus | None = None,
        agent: str | None = None,
    ) -> RunPage:
        """Return a page of the tenant's runs, newest first, and the cursor of the next.

        A filtered page is full as well, unless it would take more than `LOOKED_AT` runs to fill
        it; then it holds fewer, and still has a next one.
        """
        index, start = self._keys.runs(tenant), 0
        if before is not None:
            rank = await self._link.command("ZREVRANK", index, before)
            if rank is None:
                raise UnknownRun(f"there is no run {before!r} to go on from")
            start = int(rank) + 1
        runs: list[RunRecord] = []
        last: str | None = None
        for looked_at in range(0, LOOKED_AT, limit):
            ids, found = await self._slice(tenant, start + looked_at, limit)
            for run_id, run in zip(ids, found, strict=True):
                if run is not None and status in {None, run.status} and agent in {None, run.agent}:
                    runs.append(run)
                last = run_id
                if len(runs) == limit:
                    return RunPage(runs, last)
            if len(ids) < limit:
                return RunPage(runs, None)
        return RunPage(runs, last)

    async def _slice(
        self, tenant: str, start: int, limit: int
    ) -> tuple[list[str], list[RunRecord | None]]:
        """Return some ids of the index, newest first, and what stands of each."""
        found = await self._link.command(
            "ZREVRANGE", self._keys.runs(tenant), start, start + limit - 1
        )
        ids = [run_id.decode() for run_id in found]
        replies = await self._link.all(
            ("HGETALL", self._keys.run(tenant, run_id).record) for run_id in ids
        )
        return ids, [decode_run(pairs(reply)) if reply else None for reply in replies]

    async def cancel(
        self, tenant: str, run_id: str, *, reason: str = "user", forgets: bool = False
    ) -> CancelReceipt:
        """Ask for the run's end: a run that nobody drives is settled here, another one is told.

        With `forgets` its session keeps none of its messages.

        Raises:
            UnknownRun: This tenant has no such run.
            AlreadySettled: The run has ended before.
        """
        error = {"code": "cancelled", "message": f"the run was cancelled: {reason}"}
        code, status, running, queued = await self._link.run(
            "cancel_run",
            keys=[self._keys.run(tenant, run_id).record],
            arguments=[
                reason,
                orjson.dumps(error),
                int(forgets),
            ],
        )
        if code == -1:
            raise UnknownRun(f"there is no run {run_id!r}")
        if code == 0:
            raise AlreadySettled(f"run {run_id!r} is {status.decode()} already")
        return CancelReceipt(
            RunStatus(status.decode()),
            code == 1,
            [key.decode() for key in running],
            [key.decode() for key in queued],
        )

    async def delete(self, tenant: str, run_id: str) -> None:
        """Forget a settled run and all its content.

        Raises:
            UnknownRun: This tenant has no such run.
            StillRunning: It has not ended; cancel it first.
        """
        code = await self._link.run(
            "delete_run",
            keys=[self._keys.run(tenant, run_id).record, self._keys.runs(tenant)],
            arguments=[run_id],
        )
        if code == -1:
            raise UnknownRun(f"there is no run {run_id!r}")
        if code == 0:
            raise StillRunning(f"run {run_id!r} has not ended; cancel it, then delete it")

    async def answer_call(self, tenant: str, run_id: str, call: CallRecord, content: Any) -> None:
        """Give a call its result by hand; whoever performs it is told to stop.

        Raises:
            AlreadySettled: It has its result already.
            UnknownCall: It is not there any more.
        """
        result = ToolResult(call.key, call.id, call.name, content)
        code, state = await self._link.run(
            "answer_call",
            keys=[self._keys.run(tenant, run_id).record],
            arguments=[call.key, result.encode()],
        )
        if code < 0:
            raise UnknownCall(f"the run has no call {call.key!r}")
        if code == 0:
            raise AlreadySettled(f"the call {call.key!r} is {state.decode()} already")

    async def retry(self, tenant: str, run_id: str, changes: Changes) -> Created:
        """Make a run that goes on where this one has stopped; see `retry`."""
        await self._memory.refuse_when_full()
        run = (tenant, run_id)
        made = await retry(self._link, self._keys, self._settings, run, changes)
        if made.is_new:
            return made
        first = await self.load(tenant, made.run_id)
        return replace(made, status=first.status)

    async def calls(self, tenant: str, run_id: str) -> list[CallRecord]:
        """Return the run's ledger of side effects, in the order in which its calls were started."""
        origin = (await self.load(tenant, run_id)).origin
        found = await self._link.command("HGETALL", self._keys.run(tenant, run_id).calls)
        return decode_calls(origin, pairs(found))
