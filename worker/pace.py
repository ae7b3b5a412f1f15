"""The limits of providers, shared by all workers: who may ask now, and who waits.

Requests and tokens are counted by key and model, as providers count them. When a provider turns a
request away (429), nobody asks it with that key for as long as it says; the request itself is made
again then. Waiting is no failure, so it costs a run none of its tries.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any, TypeGuard, cast

import orjson
from redis.exceptions import RedisError

from loops.closing import closing
from loops.errors import RateLimited
from loops.messages import Usage
from loops.model import Limits, MeteredPort, ModelPort, ModelRequest, ask
from loops.providers.failures import LONGEST_WAIT
from loops.reply import ModelEvent, StreamEnd, StreamStart
from loops.tasks import overlook

from .insist import insist
from .keys import Keys
from .link import Link
from .wire import Part

LONGEST_SLEEP = timedelta(seconds=30)
"""After how long whoever waits looks again, and says in the worker's log for what."""

SPREAD = timedelta(milliseconds=250)
"""Up to how much longer each of those sleeps who wait for the same moment."""

LETTERS = 4
"""How many characters are thought to be a token, before the provider has counted."""

TOKENS_OF_A_PICTURE = 1000
"""How many tokens a picture or a document is thought to be."""

logger = logging.getLogger("loopmill.provider")


HeldUp = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Admission:
    """The leave to ask once."""

    at: int
    """When it was given, in ms by Redis' clock."""
    tokens: int
    """How many tokens were counted for it."""


class Patience:
    """For how long a turn waits for a provider that turns it away, from the first time on."""

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit.total_seconds()
        self._ends: float | None = None

    def lasts(self, longer: timedelta = timedelta(0)) -> bool:
        """Whether the turn waits that much longer."""
        now = monotonic()
        if self._ends is None:
            self._ends = now + self._limit
        return now + longer.total_seconds() < self._ends


FREE = 1.0
"""Seconds for which an account counts as free that was free when the server was asked last: for so
long another worker may still ask after its provider has turned somebody away."""


class _Free:
    """An account that was free at some time of the server."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._heard = monotonic()

    def lasts(self) -> bool:
        return monotonic() - self._heard < FREE

    def now(self) -> int:
        """Return the server's time, in ms."""
        return self._at + round((monotonic() - self._heard) * 1000)


class Pace:
    """Lets models be asked at the pace that their providers allow."""

    def __init__(self, link: Link, keys: Keys, *, patience: timedelta) -> None:
        """`patience` is how long a request is made again, before its error is the caller's."""
        self._link = link
        self._keys = keys
        self._free: dict[str, _Free] = {}
        self.patience = patience

    def over(self, port: ModelPort, held_up: HeldUp = nullcontext) -> ModelPort:
        """Return the port with its provider's limits kept, if it has any.

        `held_up` gives what surrounds each wait.
        """
        return PacedModel(self, port, held_up) if _is_metered(port) else port

    async def admit(
        self, port: MeteredPort, request: ModelRequest, patience: Patience
    ) -> Admission:
        """Wait until the model may be asked.

        For a place within the limits as long as it takes: one that is too small for the runs makes
        them slow, and fails none of them.

        Raises:
            RateLimited: When the provider wants nobody to ask for longer than the patience lasts.
        """
        limits = port.limits
        free = self._free.get(port.account)
        if free is not None and limits == Limits() and free.lasts():
            self._count(port)
            return Admission(free.now(), 0)
        takes = tokens_of(request) if limits.tokens else 0
        account, window = self._names(port)
        keys = [account, window, self._keys.providers]
        member = orjson.dumps([port.account, port.name])
        arguments: list[Part] = [member, limits.requests or 0, limits.tokens or 0, takes]
        while True:
            told = await insist(self._link, "admit", keys=keys, arguments=arguments)
            wait, now, is_paused = cast("list[int]", told)
            if wait == 0:
                self._free[port.account] = _Free(now)
                return Admission(now, takes)
            self._free.pop(port.account, None)
            pause = timedelta(milliseconds=wait)
            if is_paused and not (request.waits and patience.lasts(pause)):
                raise RateLimited(
                    f"the model {port.name!r} may not be asked for {_told(pause)}, since its "
                    "provider turned requests away; the turn does not wait that long",
                    retry_after=pause,
                )
            if pause > LONGEST_SLEEP:
                logger.info("⏸ %s waits for its provider, for %s at least", port.name, pause)
            spread = random.random() * SPREAD  # noqa: S311 - no secret hangs on it
            await asyncio.sleep((min(pause, LONGEST_SLEEP) + spread).total_seconds())

    def _count(self, port: MeteredPort) -> None:
        """Count a request that waits for nobody; what is heard of a pause holds for others."""
        account, window = self._names(port)
        member = orjson.dumps([port.account, port.name])
        keys = [account, window, self._keys.providers]

        def answered(told: asyncio.Future[Any]) -> None:
            failed = told.cancelled() or told.exception() is not None
            if failed or told.result()[0]:
                self._free.pop(port.account, None)
            else:
                self._free[port.account] = _Free(told.result()[1])

        # While the server is away nothing is counted, and nobody is taken for free.
        with suppress(RedisError):
            self._link.send_script("admit", keys, [member, 0, 0, 0]).add_done_callback(answered)

    async def turned_away(
        self, port: MeteredPort, admission: Admission, after: timedelta | None
    ) -> None:
        """Let nobody ask with the port's key before its provider wants to be asked again."""
        self._free.pop(port.account, None)
        asked = "" if after is None else round(min(after, LONGEST_WAIT) / timedelta(milliseconds=1))
        account, _ = self._names(port)
        await insist(self._link, "pause_account", keys=[account], arguments=[asked, admission.at])

    def spent(self, port: MeteredPort, admission: Admission, usage: Usage | None) -> None:
        """Count what a reply took; nobody waits for it."""
        took = admission.tokens
        if usage is not None:
            # What is read from a provider's cache counts against no limit of tokens.
            told = (usage.input_tokens, usage.output_tokens, usage.cache_write_tokens)
            took = sum(max(0, count or 0) for count in told)
        account, window = self._names(port)
        # While the server is away nothing is counted, and nothing hangs on it.
        with suppress(RedisError):
            arguments: list[Part] = [admission.at, admission.tokens, took]
            counted = self._link.send_script("spend_tokens", [window, account], arguments)
            counted.add_done_callback(overlook)

    def _names(self, port: MeteredPort) -> tuple[str, str]:
        return self._keys.account(port.account), self._keys.window(port.account, port.name)


def _is_metered(port: ModelPort) -> TypeGuard[MeteredPort]:
    """Say whether a port is metered: each turn asks, and the protocol's own answer takes long."""
    return hasattr(port, "account") and hasattr(port, "limits")


def _told(pause: timedelta) -> str:
    return f"{pause.total_seconds():.3g} s"


class PacedModel:
    """A model that is asked at its provider's pace, by one turn."""

    def __init__(self, pace: Pace, port: MeteredPort, held_up: HeldUp) -> None:
        self._pace = pace
        self._port = port
        self._held_up = held_up
        self._patience = Patience(pace.patience)
        self.name = port.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply; a request that was turned away is made again.

        Raises:
            RateLimited: When that went on for too long, or came after a part of the reply.
            ProviderError: When the service fails otherwise.
        """
        has_begun = has_said = False
        while True:
            with self._held_up():
                admission = await self._pace.admit(self._port, request, self._patience)
            reply = self._reply(request, admission)
            try:
                async with closing(reply):
                    async for event in reply:
                        is_start = isinstance(event, StreamStart)
                        if not (is_start and has_begun):
                            yield event  # noqa: ASYNC119 - whoever reads a reply closes it
                        has_begun, has_said = True, has_said or not is_start
            except RateLimited as error:
                await self._pace.turned_away(self._port, admission, error.retry_after)
                if has_said or not (request.waits and self._patience.lasts()):
                    raise
            else:
                return

    async def _reply(
        self, request: ModelRequest, admission: Admission
    ) -> AsyncIterator[ModelEvent]:
        # What a port of one's own lets through is said in our words before it is looked at.
        reply = ask(self._port, request)
        async with closing(reply):
            async for event in reply:
                if isinstance(event, StreamEnd):
                    self._pace.spent(self._port, admission, event.usage)
                yield event  # noqa: ASYNC119 - whoever reads a reply closes it


def tokens_of(request: ModelRequest) -> int:
    """Return how many tokens a request is thought to have; its provider counts them better."""
    letters = len(request.system) + sum(_letters(tool.schema) for tool in request.tools)
    blocks = (block for message in request.messages for block in message.content)
    told = ({k: v for k, v in block.raw().items() if k != "result"} for block in blocks)
    letters += _letters(request.params.get("body"))
    return (letters + sum(map(_letters, told))) // LETTERS + 1


def _letters(raw: object) -> int:
    """Return how long the texts of a block are; a picture has the length of its tokens."""
    if isinstance(raw, str):
        return len(raw)
    if isinstance(raw, Mapping):
        told = cast("Mapping[str, object]", raw)
        if told.get("type") in {"image", "document"}:
            return TOKENS_OF_A_PICTURE * LETTERS
        return sum(map(_letters, told.values()))
    return sum(map(_letters, cast("list[object]", raw))) if isinstance(raw, list) else 0
