"""When a worker asks for jobs: whenever a slot is free, with at most one claim under way.

A job's end asks in the same flush that tells of the end. A claim that got less than it asked for
sleeps on the wake lists; one that was held to its share lets other workers go first. While it
sleeps on all lists a freed slot need not ask: whatever comes wakes it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from redis.exceptions import RedisError

from .claiming import Ask, Asker, Claimed, Request, plan_ask
from .keys import Keys, QueueKeys
from .link import Link
from .slots import Slots
from .standing import Standing
from .wake import LONGEST, sleep_until_woken
from .wire import Reply

logger = logging.getLogger(__name__)

AWAY_PAUSE = 0.25
"""Seconds before the next claim, when the server did not answer one."""

SHARE_PAUSE = 0.01
"""Seconds for which a worker that has its share leaves what is due to others."""


@dataclass(slots=True, eq=False)
class Claimer:
    """Asks for one worker. Everything but `look` is called in the event loop and never waits."""

    link: Link
    keys: Keys
    asker: Asker
    slots: Slots
    standing: Standing
    queues: tuple[str, ...]
    own: Counter[str]
    """How many claims of each queue the worker has."""
    begin: Callable[[Claimed], None]
    """Gets what a claim brought."""
    renew_first: Callable[[], None]
    is_stopped: bool = False
    is_asking: bool = False
    """Whether a claim is under way."""
    _lost: list[Request] = field(default_factory=list[Request])
    """Claims whose reply was lost: what they took nobody will begin."""
    _is_scheduled: bool = False
    _again: bool = False
    _turn: int = 0
    _pause: float = 0.0
    _dozes_until: float = 0.0
    """Until when we are told of whatever comes, by `time.monotonic()`: all queues were found
    without a job, and we sleep on the wake lists of all of them."""
    _asked: tuple[QueueKeys, ...] = ()
    _next_in: timedelta | None = None
    _hungry: asyncio.Event = field(default_factory=asyncio.Event)

    def soon(self) -> None:
        """Ask at the end of this tick, in the flush of what else it sends."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._ask_now)

    def make_use(self) -> None:
        """Ask for a job for a slot that became free, unless one would wake us: none is due then."""
        if time.monotonic() >= self._dozes_until:
            self.soon()

    def ask(self) -> None:
        """Ask for as many jobs as there is room for."""
        if self.is_asking:
            self._again = True
            return
        if self.is_stopped:
            return
        if not self.standing.may_claim:
            # The report of that renewal brings us back.
            self.renew_first()
            return
        wishes = plan_ask(self.queues, self.slots, self.own, turn=self._turn)
        if wishes.free:
            self._send(wishes)

    def stop(self) -> None:
        """Ask for nothing more."""
        self.is_stopped = True
        self._hungry.set()

    async def look(self) -> None:
        """Ask again, until stopped, whenever a claim that got less than it asked for has slept."""
        while not self.is_stopped:
            await self._hungry.wait()
            self._hungry.clear()
            if not self.is_stopped:
                await self._sleep()
            self.ask()

    def _ask_now(self) -> None:
        self._is_scheduled = False
        self.ask()

    def _send(self, wishes: Ask) -> None:
        self._turn += 1
        self._again = False
        take_over = self.standing.may_take_over
        request = self.asker.request(wishes, self.own, take_over=take_over)
        self._asked = tuple(
            self.keys.queue(queue)
            for queue, limit in zip(wishes.queues, wishes.limits, strict=True)
            if limit
        )
        self._disown()
        reply = self.link.send_script("claim", request.keys, request.arguments)
        self.is_asking = True
        reply.add_done_callback(partial(self._answered, wishes, request, time.monotonic()))

    def _disown(self) -> None:
        """Give back what lost claims took, before anything is claimed anew."""
        lost, self._lost = self._lost, []
        for request in lost:
            reply = self.link.send_script("disown", *self.asker.disown(request))
            reply.add_done_callback(partial(self._disowned, request))

    def _disowned(self, request: Request, reply: asyncio.Future[Reply]) -> None:
        if reply.cancelled() or reply.exception() is not None:
            self._lost.append(request)

    def _answered(
        self, wishes: Ask, request: Request, sent: float, reply: asyncio.Future[Reply]
    ) -> None:
        self.is_asking = False
        if reply.cancelled() or reply.exception() is not None:
            self._lost.append(request)
            self._failed(reply)
            return
        self.standing.answered()
        is_late = self.standing.is_late(sent)
        claimed = self.asker.read(wishes, reply.result(), self.slots, is_late=is_late)
        self.begin(claimed)
        is_full = len(claimed.jobs) >= wishes.free
        if is_full or claimed.left:
            self._dozes_until = 0.0
        if self._again or is_full:
            self.soon()
        else:
            self._pause = SHARE_PAUSE if claimed.left else 0.0
            self._next_in = claimed.next_in
            self._hungry.set()

    def _failed(self, reply: asyncio.Future[Reply]) -> None:
        if not reply.cancelled():
            logger.warning("! no jobs can be claimed: %s", reply.exception())
        self.standing.failed()
        self._pause = AWAY_PAUSE
        self._dozes_until = 0.0
        self._hungry.set()

    async def _sleep(self) -> None:
        if self._pause or not self._asked:
            await asyncio.sleep(self._pause or 1.0)
            return
        try:
            queue = await self._doze()
            if queue is not None and (self.is_stopped or not self.slots.open):
                # Jobs came by another way meanwhile: the token is for somebody who has room.
                await self.link.run("wake", [queue])
        except RedisError:
            self.standing.failed()
            await asyncio.sleep(AWAY_PAUSE)

    async def _doze(self) -> str | None:
        if self.slots.open and len(self._asked) == len(self.queues):
            self._dozes_until = time.monotonic() + LONGEST.total_seconds()
        try:
            return await sleep_until_woken(self.link.client, self._asked, self._next_in)
        finally:
            self._dozes_until = 0.0
