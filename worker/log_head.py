"""Keeps a log bounded: its head is folded into the run's snapshot, then cut.

Cut are whole entries, and only below the start of the oldest open turn, so that a `turn.reset`
never points at what is gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from loops.closing import closing

from .calls import RunPlace
from .event_log import Entry, EventLog, Snapshot
from .keys import RunKeys
from .link import Link
from .run_record import pairs
from .settings import Settings
from .snapshot import State, empty_state, fold_events

KEPT = 0.75
"""The share of the limit that is left when a log is cut."""

PAGE = 200
"""How many entries are read at a time."""


class LogHead:
    """Cuts the log of a run that this pass owns."""

    def __init__(self, link: Link, log: EventLog, place: RunPlace, settings: Settings) -> None:
        self._link = link
        self._log = log
        self._place = place
        self._settings = settings

    def is_short(self, events: int, size: int) -> bool:
        """Say whether so many events and bytes are far from what the settings allow."""
        return 2 * events < self._settings.log_events and 2 * size < self._settings.log_bytes

    async def cut_when_long(self, epoch: int) -> None:
        """Cut the log if it holds more events or bytes than the settings allow."""
        told = await self._link.command("HMGET", self._place.record, "cut", "last_seq", "log_bytes")
        cut, last, size = (int(value or 0) for value in told)
        settings = self._settings
        if last - cut <= settings.log_events and size <= settings.log_bytes:
            return
        fields = pairs(await self._link.command("HGETALL", self._place.record))
        opened = [int(seq) for name, seq in fields.items() if name.startswith("open:")]
        below = min([*opened, last])
        await self._cut(
            epoch,
            below,
            events=last - cut - int(settings.log_events * KEPT),
            size=size - int(settings.log_bytes * KEPT),
        )

    async def _cut(self, epoch: int, below: int, *, events: int, size: int) -> None:
        """Fold and cut entries below a seq until so many events and bytes are gone."""
        run = self._place.keys.run(self._place.tenant, self._place.run_id)
        state = _state_of(await self._log.snapshot(run))
        removed, gone = 0, 0
        entries = self._entries(run, after=state["seq"])
        async with closing(entries):
            async for entry in entries:
                if entry.last >= below or (removed >= events and gone >= size):
                    break
                state = fold_events(state, entry.events)
                removed += len(entry.events)
                gone += entry.size
        if gone:
            await self._link.run(
                "trim_log",
                keys=[self._place.record],
                arguments=[epoch, state["seq"], orjson.dumps(state), gone],
            )

    async def _entries(self, run: RunKeys, *, after: int) -> AsyncIterator[Entry]:
        while page := await self._log.entries(run, after=after, limit=PAGE):
            for entry in page:
                yield entry
            after = page[-1].last


def _state_of(snapshot: Snapshot | None) -> State:
    return empty_state() if snapshot is None else {"seq": snapshot.seq, **snapshot.state}
