"""The sessions of all tenants: conversations that outlive runs, append-only.

A run's messages enter its session by the pass that owns the run, one slot each, created once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import orjson

from loops.errors import (
    AlreadySettled,
    IdempotencyConflict,
    InvalidInput,
    StillRunning,
    UnknownRun,
    UnknownSession,
)

from .keys import Keys
from .link import Link
from .new_run import IDEMPOTENCY, SESSION_RETENTION, milliseconds
from .run_record import pairs
from .runs import Runs
from .wire import Part


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session, as it stood when it was read."""

    id: str
    created_at: datetime
    used_at: datetime
    metadata: dict[str, Any]
    length: int
    """How many messages it holds."""
    owner: str | None
    """The run that has it now."""
    waiting: int
    """How many runs wait for it."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a session, with its place."""

    index: int
    message: dict[str, Any]


class Sessions:
    """The store of sessions."""

    def __init__(self, link: Link, keys: Keys, runs: Runs) -> None:
        self._link = link
        self._keys = keys
        self._runs = runs

    async def create(
        self,
        tenant: str,
        *,
        session_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        idempotency: tuple[str, str] | None = None,
    ) -> SessionRecord:
        """Open a session.

        `idempotency` are digests of a key and of the request: the same pair gives the same session.

        Raises:
            InvalidInput: The tenant has a session of that id.
            IdempotencyConflict: The key came before with another request.
        """
        name = session_id or f"ses_{secrets.token_hex(16)}"
        keys, arguments = self._plan(tenant, name, metadata or {}, idempotency or ("", ""))
        code, found = await self._link.run("create_session", keys, arguments)
        if code == 0:
            raise InvalidInput(f"session {name!r} exists; choose another id, or leave it out")
        if code == 3:
            raise IdempotencyConflict(
                f"this idempotency key belongs to session {found.decode()!r}, made from another "
                "request; send a new key, or the same request"
            )
        return await self.load(tenant, found.decode())

    def _plan(
        self, tenant: str, name: str, metadata: dict[str, Any], idempotency: tuple[str, str]
    ) -> tuple[list[Part], list[Part]]:
        key, body = idempotency
        return [
            self._keys.session(tenant, name).record,
            self._keys.sessions(tenant),
            self._keys.tenants,
            self._keys.idempotency(tenant, key) if key else "",
        ], [
            name,
            orjson.dumps(metadata),
            milliseconds(SESSION_RETENTION),
            tenant,
            body,
            milliseconds(IDEMPOTENCY),
            self._keys.session(tenant, "").record,
        ]

    async def load(self, tenant: str, session_id: str) -> SessionRecord:
        """Return the session as it stands.

        Raises:
            UnknownSession: This tenant has no such session.
        """
        found = await self._load(tenant, [session_id])
        if not found:
            raise UnknownSession(f"there is no session {session_id!r}")
        return found[0]

    async def _load(self, tenant: str, ids: Sequence[str]) -> list[SessionRecord]:
        """Return those of the sessions that are there, in one round trip."""
        all_names = [self._keys.session(tenant, session_id) for session_id in ids]
        replies = await self._link.all(
            question
            for names in all_names
            for question in (
                ("HGETALL", names.record),
                ("LLEN", names.messages),
                ("LLEN", names.queue),
            )
        )
        told = zip(ids, replies[::3], replies[1::3], replies[2::3], strict=True)
        return [
            _decode(session_id, pairs(fields), length, waiting)
            for session_id, fields, length, waiting in told
            if fields
        ]

    async def page(
        self, tenant: str, *, before: str | None = None, limit: int = 50
    ) -> tuple[list[SessionRecord], str | None]:
        """Return a page of sessions, last used first, and the cursor of the next page.

        Raises:
            UnknownSession: `before` names no session.
        """
        index, start = self._keys.sessions(tenant), 0
        if before is not None:
            rank = await self._link.command("ZREVRANK", index, before)
            if rank is None:
                raise UnknownSession(f"there is no session {before!r} to go on from")
            start = int(rank) + 1
        ids = await self._link.command("ZREVRANGE", index, start, start + limit - 1)
        sessions = await self._load(tenant, [name.decode() for name in ids])
        return sessions, ids[-1].decode() if len(ids) == limit else None

    async def messages(
        self, tenant: str, session_id: str, *, after: int = 0, limit: int = 200
    ) -> list[StoredMessage]:
        """Return the messages past the first `after`, in order.

        Raises:
            UnknownSession: This tenant has no such session.
        """
        await self.load(tenant, session_id)
        names = self._keys.session(tenant, session_id)
        stored = await self._link.command("LRANGE", names.messages, after, after + limit - 1)
        return [
            StoredMessage(index, _readable(message)) for index, message in enumerate(stored, after)
        ]

    async def runs(self, tenant: str, session_id: str, *, after_ordinal: int = 0) -> list[str]:
        """Return the ids of the session's runs past an ordinal, oldest first."""
        names = self._keys.session(tenant, session_id)
        ids = await self._link.command("LRANGE", names.runs, after_ordinal, -1)
        return [run_id.decode() for run_id in ids]

    async def delete(self, tenant: str, session_id: str) -> None:
        """Forget the session; a run that owns it is cancelled first, and so are those that wait.

        Raises:
            UnknownSession: This tenant has no such session.
            StillRunning: The run that owns it is stopping; ask again.
        """
        names = self._keys.session(tenant, session_id)
        while True:
            code, about = await self._link.run(
                "delete_session",
                keys=[names.record, self._keys.sessions(tenant)],
                arguments=[session_id, self._keys.run(tenant, "").record],
            )
            if code == -1:
                raise UnknownSession(f"there is no session {session_id!r}")
            if code == 1:
                return
            await self._stop(tenant, about.decode(), session_id)

    async def _stop(self, tenant: str, run_id: str, session_id: str) -> None:
        for waiting in await self._link.command(
            "LRANGE", self._keys.session(tenant, session_id).queue, 0, -1
        ):
            await self._cancel(tenant, waiting.decode())
        await self._cancel(tenant, run_id)

    async def _cancel(self, tenant: str, run_id: str) -> None:
        try:
            receipt = await self._runs.cancel(tenant, run_id, reason="its session was deleted")
        except (AlreadySettled, UnknownRun):
            return
        if not receipt.is_settled:
            raise StillRunning(f"run {run_id!r} is stopping; delete its session again in a moment")


def _readable(stored: bytes) -> dict[str, Any]:
    """Return a message; one that cannot be read is empty, and keeps its place."""
    with suppress(ValueError):
        message: Any = orjson.loads(stored)
        if isinstance(message, dict):
            return cast("dict[str, Any]", message)
    return {"role": "system", "content": []}


def _decode(
    session_id: str, fields: Mapping[str, bytes], length: int, waiting: int
) -> SessionRecord:
    owner = fields.get("owner")
    return SessionRecord(
        id=session_id,
        created_at=datetime.fromtimestamp(int(fields["created"]) / 1000, UTC),
        used_at=datetime.fromtimestamp(int(fields["used"]) / 1000, UTC),
        metadata=orjson.loads(fields["metadata"]),
        length=length,
        owner=owner.decode() if owner else None,
        waiting=waiting,
    )
