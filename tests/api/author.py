"""Somebody who writes into the logs of runs, with the scripts that ship, and needs no worker."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

import worker
from worker.keys import RunKeys
from worker.new_run import NewRun
from worker.resources import Resources

SHARED = Path(worker.__file__).parent / "lua" / "shared"
Event = Mapping[str, Any]


def script(body: str, *, published: bool = True) -> str:
    """A script of the shared functions and this body; unpublished, its messages are lost."""
    shared = "\n".join(
        (SHARED / f"{name}.lua").read_text() for name in ("queue", "log", "run", "hooks")
    )
    if not published:
        shared = shared.replace("redis.call('PUBLISH'", "string.format('%s'")
    return f"{shared}\n{body}"


APPEND = """
local now = clock()
local first = append(KEYS[1], tonumber(ARGV[1]), ARGV[2], now)
expire_live(KEYS[1], now, {})
return first
"""

SETTLE = """
local now = clock()
append(KEYS[1], 1, ARGV[2], now)
settle(KEYS[1], now, ARGV[1], { 'output', ARGV[3] })
"""


def event(kind: str, turn: int | None = None, **data: Any) -> Event:
    """An event as a log holds it."""
    whole: dict[str, Any] = {"type": kind, "data": data}
    return whole if turn is None else {**whole, "turn": turn}


def text(words: str) -> Event:
    """A piece of text."""
    return event("text.delta", 1, block=0, text=words)


class Author:
    """Writes one run's events."""

    def __init__(self, resources: Resources, run_id: str, session_id: str, tenant: str) -> None:
        self.resources = resources
        self.run_id = run_id
        self.session_id = session_id
        self.tenant = tenant

    @property
    def keys(self) -> RunKeys:
        return self.resources.keys.run(self.tenant, self.run_id)

    async def append(self, *events: Event, published: bool = True) -> int:
        """Append the events as one entry, and return the seq of the last."""
        body = script(APPEND, published=published)
        first: int = await self.resources.link.command(
            "EVAL", body, 1, self.keys.record, len(events), orjson.dumps(events)
        )
        return first + len(events) - 1

    async def evaluate(self, body: str, *arguments: str | bytes | int) -> None:
        """Run a script over the run's record."""
        await self.resources.link.command("EVAL", script(body), 1, self.keys.record, *arguments)

    async def types(self) -> list[str]:
        """Return the types of the run's events so far."""
        return [each.type for each in await self.resources.log.read(self.keys, limit=1000)]

    async def settle(
        self, status: str = "completed", output: str = "", *, published: bool = True
    ) -> None:
        """End the run with its last event."""
        events = orjson.dumps([event(f"run.{status}", usage={})])
        body = script(SETTLE, published=published)
        await self.resources.link.command("EVAL", body, 1, self.keys.record, status, events, output)

    async def cut(self, upto: int, state: Mapping[str, Any]) -> None:
        """Cut the log's head up to `upto`, which is folded into a snapshot."""
        link, keys = self.resources.link, self.keys
        stored = orjson.dumps({"seq": upto, **state})
        await link.command("SET", keys.snapshot, stored, "EX", 1000)
        await link.command("XTRIM", keys.log, "MINID", f"{upto}-1")
        await link.command("HSET", keys.record, "cut", upto)

    async def lose(self, count: int) -> None:
        """Forget the newest entries, as a server does that lost its last second."""
        link, keys = self.resources.link, self.keys
        for entry_id, _ in await link.command("XREVRANGE", keys.log, "+", "-", "COUNT", count):
            await link.command("XDEL", keys.log, entry_id)
        (newest,) = await link.command("XREVRANGE", keys.log, "+", "-", "COUNT", 1)
        await link.command("HSET", keys.record, "last_seq", newest[0].partition(b"-")[0])

    async def vanish(self) -> None:
        """Let the run's keys be gone."""
        keys = self.keys
        names = (keys.record, keys.log, keys.snapshot, keys.input)
        await self.resources.link.command("DEL", *names)


async def begin(
    resources: Resources, *, tenant: str = "default", session_id: str | None = None
) -> Author:
    """Accept a run, which nobody drives, and return its author."""
    new = NewRun("echo", [{"role": "user", "content": "hello"}], session_id=session_id)
    created = await resources.runs.create(tenant, new)
    return Author(resources, created.run_id, created.session_id, tenant)
