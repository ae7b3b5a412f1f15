"""The scripts of one pass: sent in order, each done once, whatever becomes of its reply.

A pass numbers its scripts. One whose reply was lost is sent again: the server knows its number and
does not do it twice, and does none before the one ahead of it. So nothing that a pass writes is
lost, doubled or reordered while the pass owns its run; and once it does not, all is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from loops.errors import ReplayDiverged, RunLeft
from loops.tasks import Owner, overlook

from .insist import is_passing, pause
from .link import Link
from .wire import Part, Reply

LEFT, DONE, DIVERGED, GO_ON, GAP, REPEATED = range(6)
"""How a script of a pass ends; the same numbers as in `lua/shared/flush.lua`."""

BROKEN = -1
"""The server does not understand the script."""


@dataclass(slots=True, eq=False)
class _Sent:
    script: str
    arguments: list[Part]
    reply: asyncio.Future[list[Any]]


class Writer:
    """Sends the scripts of one pass."""

    def __init__(self, link: Link, record: str, epoch: int, owner: Owner) -> None:
        self._link = link
        self._record = record
        self._epoch = epoch
        self._owner = owner
        self._queue: deque[_Sent] = deque()
        self._number = 0
        self._pump: asyncio.Task[None] | None = None
        self.is_left = False
        """Whether the server has refused this pass: it owns its run no more."""

    def submit(self, script: str, flush: list[Part], *more: Part) -> asyncio.Future[list[Any]]:
        """Send a script after those before it, and return the future of its reply.

        The future raises `RunLeft` when the pass owns its run no more, and `ReplayDiverged` when a
        message differs from the one that stands in its slot.
        """
        reply: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting when it is refused: the refusal is kept in `is_left`.
        reply.add_done_callback(overlook)
        if self.is_left:
            reply.set_exception(RunLeft())
            return reply
        self._number += 1
        self._queue.append(_Sent(script, [self._epoch, self._number, *flush, *more], reply))
        if self._pump is None or self._pump.done():
            self._pump = self._owner.start(self._send_all(), name="writer")
        return reply

    async def _send_all(self) -> None:
        tries = 0
        while self._queue and not self.is_left:
            tries = 0 if await self._send_batch() else tries + 1
            if tries:
                await asyncio.sleep(pause(tries))

    async def _send_batch(self) -> bool:
        """Send all that waits, and say whether all of it was answered."""
        sent = self._send_queued()
        is_whole = bool(sent)
        for place, (one, reply) in enumerate(sent):
            answer = await _answer(reply)
            if self.is_left:
                return True
            if answer is not None and answer[0] == GAP and place == 0:
                # What it said was done is not there any more: the server has lost it.
                answer = [LEFT, 0]
            if answer is None or answer[0] == GAP:
                is_whole = False
            elif is_whole or answer[0] in {LEFT, REPEATED, BROKEN}:
                self._queue.remove(one)
                self._settle(one, answer)
        return is_whole

    def _send_queued(self) -> list[tuple[_Sent, asyncio.Future[Reply]]]:
        """Send all that waits; a script that cannot be sent at all ends the pass with its error."""
        sent: list[tuple[_Sent, asyncio.Future[Reply]]] = []
        for one in list(self._queue):
            try:
                reply = self._link.send_script(one.script, [self._record], one.arguments)
            except (RedisError, TypeError, ValueError) as error:
                self._queue.remove(one)
                self._settle(one, [BROKEN, error])
                break
            sent.append((one, reply))
        return sent

    def _settle(self, one: _Sent, answer: list[Any]) -> None:
        if not one.reply.done():
            self._tell(one, answer)
        if answer[0] in {LEFT, BROKEN}:
            self.leave()

    def _tell(self, one: _Sent, answer: list[Any]) -> None:
        if answer[0] == BROKEN:
            one.reply.set_exception(answer[1])
        elif answer[0] == LEFT:
            one.reply.set_exception(RunLeft())
        elif answer[0] == DIVERGED:
            one.reply.set_exception(
                ReplayDiverged(
                    f"message {answer[1]} of the run differs from the one that an earlier pass "
                    "added in its place; what a loop adds may depend only on its journal"
                )
            )
        else:
            one.reply.set_result(answer)

    def leave(self) -> None:
        """Refuse all that is still to be sent: the pass owns its run no more."""
        self.is_left = True
        while self._queue:
            one = self._queue.popleft()
            if not one.reply.done():
                one.reply.set_exception(RunLeft())


async def _answer(reply: asyncio.Future[Reply]) -> list[Any] | None:
    """Return a script's answer, or None when it has to be sent again."""
    try:
        answer: list[Any] = await reply
    except RedisError as error:
        # What does not pass is a fault of ours: nothing after it may be done, or its place would be
        # skipped.
        return None if is_passing(error) else [BROKEN, error]
    return answer
