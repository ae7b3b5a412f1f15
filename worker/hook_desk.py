"""How hooks are asked and closed on the server, by whoever has one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import orjson

from loops.question import Answer, Question
from loops.redact import hidden
from loops.tasks import Owner
from loops.tools import Redaction
from loops.wire import encode

from .answers import OUTSIDE, Answers
from .calls import RunPlace
from .insist import insist
from .link import Link
from .new_run import milliseconds
from .outbox import bounded
from .wire import Part, Reply

LONGEST = timedelta(days=28)
"""How long a hook may stay open, and a sleep may last: a session is kept a little longer."""

FIRED = 100
"""How many runs a look at the timers wakes at most."""

TICK = 1.0
"""Seconds between two looks at the timers."""


@dataclass(frozen=True, slots=True)
class HookDesk:
    """Closes the hooks of one run, and looks their answers up."""

    link: Link
    place: RunPlace
    owner: Owner

    def settle(self, key: str, hides: Redaction, answer: Answer) -> None:
        """Close a hook from inside of the run, as somebody outside would.

        Raises:
            TypeError: When what it is closed with cannot be stored.
        """
        if answer.error is not None or answer.status == "deferred":
            raise TypeError(
                "on workers a hook waits for its answer as long as it takes: resolve it with data, "
                "or cancel it"
            )
        closing = close_hook(self.link, self.place, key, answer, hides=hides)
        self.owner.start(closing, name=f"settle {key}")

    async def look_up(self, answers: Answers) -> None:
        """Read the answers that wait, in case a message was lost."""
        keys = [key for key in answers.waiting if key.startswith(OUTSIDE)]
        if not keys:
            return
        for key, answer in zip(keys, await self.read(*keys), strict=True):
            if answer is not None:
                answers.arrive(key, answer)

    async def read(self, *keys: str) -> list[bytes | None]:
        """Return the answers of these hooks, as far as there are any."""
        found: list[bytes | None] = await self.link.command(
            "HMGET", self.place.names.hooks, *(f"{key}|answer" for key in keys)
        )
        return found


def lasting(duration: timedelta) -> int:
    """Return for how many milliseconds a hook stays open, or a sleep lasts."""
    return max(0, milliseconds(min(duration, LONGEST)))


def asked_of(question: Question) -> tuple[bytes, bytes, bytes]:
    """Return what a hook's events begin with, what is kept of it, and the event that asks."""
    kind, data = encode(question.opened())
    told = {name: data[name] for name in ("label", "call") if name in data}
    event: dict[str, Any] = {"type": kind, "data": data}
    if question.call is not None and question.call.number is not None:
        event["turn"] = question.call.number
    about = {**data, "hides": question.hides} if question.hides else data
    return orjson.dumps(told)[1:-1], orjson.dumps(about), b"[" + bounded(event) + b"]"


async def close_hook(
    link: Link, place: RunPlace, key: str, answer: Answer, *, hides: Redaction = False
) -> tuple[int, str]:
    """Close an open hook; return the script's code, and the state in which the hook is.

    What of an approval's arguments is hidden is not told.
    """
    more = {"resolution": _shown(answer.data, hides)} if answer.status == "resolved" else {}
    if answer.reason is not None:
        more["reason"] = answer.reason
    said = orjson.dumps(more)[1:-1]
    told: list[Part] = [key, answer.status, answer.encode(), b"," + said if said else b""]
    reply: Reply = await insist(link, "answer_hook", keys=[place.record], arguments=told)
    return reply[0], reply[1].decode()


def _shown(data: Any, hides: Redaction) -> Any:
    if not hides or not isinstance(data, dict):
        return data
    told = cast("dict[str, Any]", data)
    if not isinstance(told.get("arguments"), dict):
        return told
    edited: dict[str, Any] = told["arguments"]
    return {**told, "arguments": hidden(edited, hides)}


async def keep_time(link: Link, timers: str) -> None:
    """Let hooks expire and sleeps end, once a second, until cancelled."""
    fired = 0
    while True:
        if fired < FIRED:
            await asyncio.sleep(TICK)
        fired = await insist(link, "fire_timers", keys=[timers], arguments=[FIRED])
