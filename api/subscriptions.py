"""One connection to Redis on which a process hears all channels that it follows.

The connection may be lost at any moment and is made again. What was published in between is lost:
each time that a channel is confirmed anew, its owner is told, and looks up what it missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

PING = timedelta(seconds=3)
"""How often a quiet connection is asked for a sign of life."""

SILENCE = timedelta(seconds=8)
"""How long a connection may say nothing before it counts as dead."""

PAUSE = timedelta(milliseconds=200)
"""How long to wait before a lost connection is made again."""


class Subscriptions:
    """The channels that somebody wants to hear.

    `on_heard(channel)` is called when the channel is confirmed: everything published from then on
    comes to `on_message(channel, message)`, until it is called again.
    """

    def __init__(
        self,
        client: Redis,
        *,
        on_heard: Callable[[str], None],
        on_message: Callable[[str, bytes], None],
    ) -> None:
        self._client = client
        self._on_heard = on_heard
        self._on_message = on_message
        self._wanted: set[str] = set()
        self._heard: set[str] = set()
        self._changed = asyncio.Event()
        self._is_closed = False
        self.is_connected = False
        """Whether what is published is heard."""

    def add(self, channel: str) -> None:
        """Hear the channel from now on."""
        self._wanted.add(channel)
        if channel in self._heard:
            asyncio.get_running_loop().call_soon(self._on_heard, channel)
        else:
            self._changed.set()

    def drop(self, channel: str) -> None:
        """Hear the channel no more."""
        self._wanted.discard(channel)
        self._changed.set()

    def close(self) -> None:
        """End soon: what follows is a cancellation, and that may be swallowed.

        `asyncio.wait_for` on Python 3.11 does so when it ends in the same tick, and so does a task
        group one of whose tasks fails meanwhile.
        """
        self._is_closed = True

    async def run(self) -> None:
        """Keep the connection, until closed and cancelled."""
        while not self._is_closed:
            try:
                await self._connect()
            except* (RedisError, OSError) as errors:
                logger.warning("! lost the connection for events: %s", errors.exceptions[0])
            await asyncio.sleep(PAUSE.total_seconds())

    async def _connect(self) -> None:
        pubsub = cast(Any, self._client).pubsub()  # redis-py leaves it without types
        try:
            await pubsub.connect()
            if self._is_closed:
                return
            self.is_connected = True
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(pubsub))
                group.create_task(self._write(pubsub))
        finally:
            self.is_connected = False
            self._heard.clear()
            await pubsub.aclose()

    async def _write(self, pubsub: Any) -> None:
        told: set[str] = set()
        while not self._is_closed:
            self._changed.clear()
            new, old = self._wanted - told, told - self._wanted
            self._heard -= old
            if new:
                await pubsub.subscribe(*new)
            if old:
                await pubsub.unsubscribe(*old)
            told = (told | new) - old
            try:
                async with asyncio.timeout(PING.total_seconds()):
                    await self._changed.wait()
            except TimeoutError:
                await pubsub.ping()

    async def _read(self, pubsub: Any) -> None:
        while not self._is_closed:
            message = await pubsub.get_message(timeout=SILENCE.total_seconds())
            if message is None:
                raise RedisConnectionError(f"no sign of life for {SILENCE.total_seconds():g} s")
            channel = (message["channel"] or b"").decode()
            if message["type"] == "message":
                self._on_message(channel, message["data"])
            elif message["type"] == "subscribe" and channel in self._wanted:
                self._heard.add(channel)
                self._on_heard(channel)
