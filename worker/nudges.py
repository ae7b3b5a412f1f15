"""What a worker is told about its jobs, at once: an answer has come, somebody wants an end.

A message is four lines on the worker's channel: job id, kind, key, value. Messages may be lost; so
whoever listens also looks things up once a second, and at once after a reconnect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from loops.guard import Raised, outcome_of_call

SWEEP = 1.0
"""Seconds after which a lost message is made up for."""

Listener = Callable[[str, str, bytes], None]
"""Takes the kind, the key and the value of a message about one job."""

logger = logging.getLogger("loopmill.worker")


class Nudges:
    """Hears the messages of one worker, and passes each to the listener of its job."""

    def __init__(self, client: Redis, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._listeners: dict[bytes, Listener] = {}
        self.is_listening = asyncio.Event()

    @contextmanager
    def listener(self, job_id: str, listener: Listener) -> Generator[None]:
        """Pass the messages about a job to the listener while the block runs."""
        self._listeners[job_id.encode()] = listener
        try:
            yield
        finally:
            # The next claim of the same job may listen already.
            if self._listeners.get(job_id.encode()) is listener:
                del self._listeners[job_id.encode()]

    async def listen(self) -> None:
        """Hear messages until cancelled; a lost connection is made again."""
        while True:
            with suppress(RedisError, OSError):
                await self._hear()
            self.is_listening.clear()
            await asyncio.sleep(SWEEP / 4)

    async def _hear(self) -> None:
        # redis-py's pub/sub has no types that a checker accepts.
        client = cast("Any", self._client)
        async with client.pubsub(ignore_subscribe_messages=False) as subscription:
            await subscription.subscribe(self._channel)
            while True:
                message: dict[str, Any] | None = await subscription.get_message(timeout=30)
                if message is None:
                    await subscription.ping()
                elif message["type"] == "subscribe":
                    self.is_listening.set()
                elif message["type"] == "message":
                    self._pass_on(message["data"])

    def _pass_on(self, raw: bytes) -> None:
        job_id, _, told = raw.partition(b"\n")
        kind, _, rest = told.partition(b"\n")
        key, _, value = rest.partition(b"\n")
        listener = self._listeners.get(job_id)
        if listener is None:
            return
        # Anybody can publish anything: what one message does to its listener ends no one's hearing.
        heard = outcome_of_call(lambda: listener(kind.decode(), key.decode(), value))
        if isinstance(heard, Raised):
            logger.warning("! job %r: a message cannot be understood: %s", job_id, heard.text)
