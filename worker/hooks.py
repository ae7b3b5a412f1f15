"""The open hooks of all tenants, as seen from outside: list them, look at one, close one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from loops.errors import AlreadySettled, HookGone, InvalidInput, UnknownHook, UnknownRun
from loops.question import Answer

from .answers import HOOK
from .calls import RunPlace
from .hook_desk import close_hook
from .keys import Keys
from .link import Link
from .run_record import instant

ANSWER_LIMIT = 128 * 1024
"""How many bytes an answer may have as JSON: it is told whole, and no event is above 256 KB."""


_ABOUT = b"|about"
"""How the field of a hook's record ends that says what is asked."""


def _asks(field: bytes) -> bool:
    """Say whether the field is what a hook asks; sleeps and children ask nothing."""
    return field.startswith(HOOK.encode()) and field.endswith(_ABOUT)


class HookRecord(BaseModel):
    """A hook, as it stood when it was read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    """The hook's key in its run: labels may come again."""
    run_id: str
    label: str
    status: str
    payload: dict[str, Any]
    """The JSON schema of the answer."""
    metadata: dict[str, Any] | None = None
    call: str | None = None
    """The key of the call that waits, where it is one."""
    expires_at: datetime
    hides: bool | list[str] = False
    """What of the arguments in the answer to an approval nobody is shown."""


@dataclass(frozen=True, slots=True)
class HookPage:
    """A page of open hooks, the oldest first."""

    hooks: list[HookRecord]
    next: str | None
    """The cursor of the page after this one, None at the end."""


class Hooks:
    """The store of hooks."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    async def page(self, tenant: str, *, after: str | None = None, limit: int = 50) -> HookPage:
        """Return a page of the tenant's open hooks, the oldest first.

        Raises:
            UnknownHook: The hook to go on after is not open any more.
        """
        index, start = self._keys.hooks(tenant), 0
        if after is not None:
            rank = await self._link.command("ZRANK", index, after)
            if rank is None:
                raise UnknownHook(f"the hook {after!r} is not open any more; begin anew")
            start = int(rank) + 1
        members = await self._link.command("ZRANGE", index, start, start + limit - 1)
        names = [member.decode() for member in members]
        hooks = await self._read(tenant, [name.partition(" ")[::2] for name in names])
        return HookPage(hooks, names[-1] if len(names) == limit else None)

    async def open_of(self, tenant: str, run_id: str) -> list[HookRecord]:
        """Return the open hooks of a run, in no order."""
        fields = await self._link.command("HKEYS", self._keys.run(tenant, run_id).hooks)
        keys = [name.removesuffix(_ABOUT).decode() for name in fields if _asks(name)]
        hooks = await self._read(tenant, [(run_id, key) for key in keys])
        return [hook for hook in hooks if hook.status == "open"]

    async def load(self, tenant: str, run_id: str, label: str) -> HookRecord:
        """Return the last hook of the label.

        Raises:
            UnknownRun: This tenant has no such run.
            UnknownHook: The run has never opened a hook of this label.
        """
        names = self._keys.run(tenant, run_id)
        is_there, key = await self._link.all(
            [("EXISTS", names.record), ("HGET", names.hooks, f"@{label}")]
        )
        if not is_there:
            raise UnknownRun(f"there is no run {run_id!r}")
        if key is None:
            raise UnknownHook(f"the run has no hook labelled {label!r}")
        return (await self._read(tenant, [(run_id, key.decode())]))[0]

    async def _read(self, tenant: str, wanted: list[tuple[str, str]]) -> list[HookRecord]:
        if not wanted:
            return []
        replies = await self._link.all(
            (
                "HMGET",
                self._keys.run(tenant, run_id).hooks,
                *(f"{key}|{name}" for name in ("state", "about", "ends")),
            )
            for run_id, key in wanted
        )
        return [
            _decoded(run_id, key, *fields)
            for (run_id, key), fields in zip(wanted, replies, strict=True)
            if fields[1] is not None
        ]

    async def close(self, tenant: str, hook: HookRecord, answer: Answer) -> None:
        """Answer a hook, or cancel it: the run that waits for it goes on.

        Whether an answer fits the question is for the caller to see to.

        Raises:
            InvalidInput: The answer is too long; the hook stays open.
            AlreadySettled: It was closed before.
            HookGone: Its time is over.
            UnknownHook: It is not there any more.
        """
        if len(answer.encode()) > ANSWER_LIMIT:
            raise InvalidInput(f"an answer has at most {ANSWER_LIMIT} bytes of JSON")
        place = RunPlace(self._keys, tenant, hook.run_id)
        code, state = await close_hook(self._link, place, hook.id, answer, hides=hook.hides)
        refuse_closed(hook, code, state)


def _decoded(run_id: str, key: str, state: bytes, about: bytes, ends: bytes) -> HookRecord:
    told: dict[str, Any] = orjson.loads(about)
    # The end by the server's clock, which is the one that counts.
    told |= {"id": key, "run_id": run_id, "status": state.decode(), "expires_at": instant(ends)}
    return HookRecord.model_validate(told)


def refuse_closed(hook: HookRecord, code: int, state: str) -> None:
    """Raise what the script's answer means, if it means that the hook was not closed now.

    Raises:
        AlreadySettled: It was closed before.
        HookGone: Its time is over.
        UnknownHook: It is not there any more.
    """
    if code == 1:
        return
    if code < 0:
        raise UnknownHook(f"the run has no hook labelled {hook.label!r}")
    if state == "expired":
        raise HookGone(f"the time of the hook {hook.label!r} is over")
    raise AlreadySettled(f"the hook {hook.label!r} is {state} already")
