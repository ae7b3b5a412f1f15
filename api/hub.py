"""The hub: one per process, between Redis and everybody who follows a run.

When Redis confirms a channel's subscription, the hub asks where the log stands: what is before that
is read from the log, what comes after is heard. A message that does not continue what was heard
sends the channel to the log; so does a sweep, once a second, that asks for the newest seq of all
channels in one go. A lost message costs a second at most, a lost connection no event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Self

from redis.asyncio import Redis
from redis.exceptions import RedisError

from loops.errors import UnknownRun
from loops.tasks import Owner

from .channel import Channel, EventLog
from .errors import RedisAway, Refusal
from .follower import Follower
from .frames import Source
from .subscriptions import Subscriptions

logger = logging.getLogger(__name__)

SWEEP = timedelta(seconds=1)
"""How often all channels are compared with their logs."""

JOIN = timedelta(seconds=1)
"""How long a new follower waits for Redis before it is turned away."""


class Hub:
    """All followers of a process. It lives from its entering to its leaving, which ends them."""

    def __init__(
        self, log: EventLog, client: Redis, *, sweep: timedelta = SWEEP, join: timedelta = JOIN
    ) -> None:
        self._log = log
        self._pause = sweep.total_seconds()
        self._patience = join.total_seconds()
        self._subscriptions = Subscriptions(client, on_heard=self._heard, on_message=self._message)
        self._channels: dict[str, Channel] = {}
        self._followers: set[Follower] = set()
        self._due: set[Channel] = set()
        self._hurry = asyncio.Event()
        self._tasks = Owner()
        self._running: list[asyncio.Task[None]] = []
        self.is_open = True
        """Whether anybody may follow: no more, once the server stops."""

    async def __aenter__(self) -> Self:
        self._running = [
            self._tasks.start(self._subscriptions.run(), name="hub subscriptions"),
            self._tasks.start(self._sweep_for_ever(), name="hub sweep"),
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._subscriptions.close()
        await self._tasks.close()

    @property
    def followers(self) -> Collection[Follower]:
        """Everybody who reads."""
        return self._followers

    @property
    def followed(self) -> Collection[Channel]:
        """The runs that are heard."""
        return self._channels.values()

    @property
    def is_connected(self) -> bool:
        """Whether events are heard as they happen."""
        return self._subscriptions.is_connected

    @property
    def is_working(self) -> bool:
        """Whether it does its work: that ends with the hub, or by a fault."""
        return self.is_open and not any(task.done() for task in self._running)

    def close(self) -> None:
        """End every stream, and let nobody follow any more."""
        self.is_open = False
        for follower in self._followers:
            follower.close()

    def follow(self, source: Source, *, after: int, types: frozenset[str] | None = None) -> Stay:
        """Follow a run that is alive, from the cursor on."""
        return Stay(self, partial(self._join, source), after, types)

    def read(
        self,
        source: Source,
        *,
        last_seq: int,
        is_settled: bool,
        after: int,
        types: frozenset[str] | None = None,
    ) -> Stay:
        """Read a run's log up to `last_seq`, and wait for nothing."""
        at_rest = partial(Channel.at_rest, source, last_seq, is_settled=is_settled)
        return Stay(self, at_rest, after, types)

    async def admit(
        self, channel: Channel, *, after: int, types: frozenset[str] | None
    ) -> Follower:
        """Let somebody read the channel, as soon as it is known where its log stands."""
        if not self.is_open:
            message = "the server is stopping; connect again"
            headers = {"Retry-After": "1"}
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "stopping", message, headers=headers)
        follower = Follower(channel, self._log, cursor=after, types=types)
        self._followers.add(follower)
        channel.listeners.add(follower)
        is_in = False
        try:
            await self._known(follower)
            is_in = True
        finally:
            if not is_in:
                self.dismiss(follower)
        return follower

    def dismiss(self, follower: Follower) -> None:
        """Forget the follower."""
        self._followers.discard(follower)
        follower.channel.listeners.discard(follower)

    def _join(self, source: Source) -> Channel:
        name = source.keys.log
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(source)
            self._subscriptions.add(name)
        return channel

    async def _known(self, follower: Follower) -> None:
        channel = follower.channel
        deadline = asyncio.get_running_loop().time() + self._patience
        while not channel.is_known:
            if not await follower.woken(deadline):
                raise RedisAway("the server's store does not answer; try again later")
        if channel.is_gone:
            raise UnknownRun(f"there is no run {channel.source.run_id!r}")

    def _heard(self, name: str) -> None:
        if name in self._channels:
            self._look_at(self._channels[name])

    def _message(self, name: str, message: bytes) -> None:
        channel = self._channels.get(name)
        if channel is not None and not channel.hear(message):
            self._look_at(channel)

    def _look_at(self, channel: Channel) -> None:
        self._due.add(channel)
        self._hurry.set()

    async def _sweep_for_ever(self) -> None:
        clock = asyncio.get_running_loop().time
        next_sweep = clock() + self._pause
        while self.is_open:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_sweep):
                    await self._hurry.wait()
            channels = list(self._due)
            # However many hurried rounds there are, the sweep comes at its time.
            if clock() >= next_sweep:
                next_sweep = clock() + self._pause
                self._clear_up()
                channels = list(self._channels.values())
            self._due.clear()
            self._hurry.clear()
            try:
                await self._compare(channels)
            except* (RedisError, OSError) as errors:
                logger.warning("! cannot compare with the logs: %s", errors.exceptions[0])

    async def _compare(self, channels: Iterable[Channel]) -> None:
        ends = {channel: channel.tail.end for channel in channels}
        seqs = await self._log.last_seqs([channel.source.keys for channel in ends])
        for (channel, end), seq in zip(ends.items(), seqs, strict=True):
            channel.stand_at(seq, since=end)
        async with asyncio.TaskGroup() as group:
            for channel in ends:
                if channel.is_behind:
                    group.create_task(channel.catch_up(self._log))

    def _clear_up(self) -> None:
        for name, channel in list(self._channels.items()):
            if channel.listeners:
                channel.forget_what_was_read()
            else:
                del self._channels[name]
                self._subscriptions.drop(name)


class Stay:
    """A follower's stay, from its entering to its leaving.

    Entering raises `UnknownRun` when there is no such run, `RedisAway` when Redis does not answer,
    and `Refusal` when the server stops.
    """

    __slots__ = ("_after", "_channel", "_follower", "_hub", "_types")

    def __init__(
        self,
        hub: Hub,
        channel: Callable[[], Channel],
        after: int,
        types: frozenset[str] | None,
    ) -> None:
        self._hub = hub
        self._channel = channel
        self._after = after
        self._types = types
        self._follower: Follower | None = None

    async def __aenter__(self) -> Follower:
        self._follower = await self._hub.admit(
            self._channel(), after=self._after, types=self._types
        )
        return self._follower

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._follower is not None:
            self._hub.dismiss(self._follower)
