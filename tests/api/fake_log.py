"""Logs in memory, whose messages may be lost, and which may be away for a while."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.api.author import Event
from worker.event_log import LogEvent, Snapshot, UnreadableLog
from worker.keys import RunKeys

ATTEMPT, TIME = 0, 1_800_000_000_000
PUBLISH_LIMIT = 65536


class FakeLog:
    """Any number of runs; the channel's messages go out over a client."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self._entries: dict[str, list[list[LogEvent]]] = {}
        self._last: dict[str, int] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self.is_away = False
        self.unreadable = ""
        self.reads = 0
        self.sweeps = 0

    async def read(self, run: RunKeys, *, after: int = 0, limit: int = 1000) -> list[LogEvent]:
        self._answer()
        self.reads += 1
        if run.log == self.unreadable:
            raise UnreadableLog("an entry holds no events")
        entries = [each for each in self._entries.get(run.log, []) if each[-1].seq > after]
        return [event for entry in entries[:limit] for event in entry if event.seq > after]

    async def last_seqs(self, runs: Sequence[RunKeys]) -> list[int | None]:
        self._answer()
        self.sweeps += 1
        return [self._last.get(run.log) for run in runs]

    async def snapshot(self, run: RunKeys) -> Snapshot | None:
        self._answer()
        return self._snapshots.get(run.log)

    def _answer(self) -> None:
        if self.is_away:
            raise RedisConnectionError("the server is away")

    async def append(self, run: RunKeys, *events: Event, published: bool = True) -> int:
        """Append one entry, and return the seq of its last event."""
        first = self._last.get(run.log, 0) + 1
        entry = [
            LogEvent(seq, event["type"], event.get("turn"), ATTEMPT, TIME, event["data"])
            for seq, event in enumerate(events, first)
        ]
        self._entries.setdefault(run.log, []).append(entry)
        last = self._last[run.log] = entry[-1].seq
        written = orjson.dumps(events)
        message = f"{first} {last}".encode()
        if len(written) <= PUBLISH_LIMIT:
            message += f" {ATTEMPT} {TIME} ".encode() + written
        if published:
            await self.client.publish(run.log, message)
        return last

    async def cut(self, run: RunKeys, upto: int, state: Mapping[str, Any]) -> None:
        """Cut the head up to `upto`."""
        self._snapshots[run.log] = Snapshot(upto, dict(state))
        kept = [entry for entry in self._entries[run.log] if entry[-1].seq > upto]
        self._entries[run.log] = kept

    def lose(self, run: RunKeys, count: int) -> None:
        """Forget the newest entries."""
        del self._entries[run.log][-count:]
        self._last[run.log] = self._entries[run.log][-1][-1].seq

    def forget_events(self, run: RunKeys) -> None:
        """Let the events be gone, and the run's record stay."""
        del self._entries[run.log]

    def vanish(self, run: RunKeys) -> None:
        """Let the run be gone."""
        for names in (self._entries, self._last, self._snapshots):
            names.pop(run.log, None)
