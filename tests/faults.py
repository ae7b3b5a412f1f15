"""Links that fail on purpose at the N-th command: before it, after it was done, late, cancelled.

A test loops over N until a whole pass meets no fault; so every command of what it does has failed
once in each way.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import redis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from worker.link import Link
from worker.renewal import Caller
from worker.wire import Part, Reply

DELAY = 0.05


class Fault(StrEnum):
    """What happens to a command."""

    BEFORE = "fails before it is sent"
    AFTER = "fails after it was done"
    DELAYED = "is answered late"
    CANCELLED = "is cancelled while it is under way"


@dataclass(slots=True)
class Trap:
    """Waits for the N-th command of a kind."""

    at: int
    fault: Fault
    met: int = 0
    delay: float = DELAY

    def springs(self) -> bool:
        """Count a command, and say whether it is the one."""
        self.met += 1
        return self.met == self.at

    @property
    def has_sprung(self) -> bool:
        """Whether the N-th command came."""
        return self.met >= self.at


class FaultyLink(Link):
    """A link whose N-th command has a fault. Commands and scripts are counted alike."""

    def __init__(self, client: Redis, trap: Trap, blocking: redis.Redis | None = None) -> None:
        super().__init__(client, blocking)
        self.trap = trap

    def send(self, *parts: Part) -> asyncio.Future[Reply]:
        return self._meet(lambda: super(FaultyLink, self).send(*parts))

    def send_script(
        self, name: str, keys: Sequence[Part] = (), arguments: Sequence[Part] = ()
    ) -> asyncio.Future[Reply]:
        return self._meet(lambda: super(FaultyLink, self).send_script(name, keys, arguments))

    def _meet(self, send: Callable[[], asyncio.Future[Reply]]) -> asyncio.Future[Reply]:
        if not self.trap.springs():
            return send()
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self.trap.fault is Fault.BEFORE:
            answer.set_exception(RedisConnectionError("cut before the command"))
            return answer
        if self.trap.fault is Fault.CANCELLED:
            answer = send()
            asyncio.get_running_loop().call_soon(answer.cancel)
            return answer
        send().add_done_callback(lambda reply: self._pass_on(reply, answer))
        return answer

    def _pass_on(self, reply: asyncio.Future[Reply], answer: asyncio.Future[Reply]) -> None:
        value = reply.result()
        if answer.done():
            return
        if self.trap.fault is Fault.AFTER:
            answer.set_exception(RedisConnectionError("cut after the command"))
        else:
            asyncio.get_running_loop().call_later(self.trap.delay, _answer, answer, value)


def _answer(answer: asyncio.Future[Reply], value: Reply) -> None:
    if not answer.done():
        answer.set_result(value)


def faulty_caller(call: Caller, trap: Trap) -> Caller:
    """Return a caller, for a thread, whose N-th call has a fault (it cannot be cancelled)."""

    def call_or_fail(name: str, keys: Sequence[Part], arguments: Sequence[Part]) -> Any:
        if not trap.springs():
            return call(name, keys, arguments)
        if trap.fault is Fault.BEFORE:
            raise RedisConnectionError("cut before the command")
        value = call(name, keys, arguments)
        if trap.fault is Fault.AFTER:
            raise RedisConnectionError("cut after the command")
        return value

    return call_or_fail
