"""One connection's life: what was sent on it, and the task that reads the replies in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import hiredis
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError

from loops.tasks import Owner

from .scripts import Script

Part = str | bytes | int | float
Reply = Any
"""What a server answers: bytes, an integer, None, or a list of these."""

PATIENCE = timedelta(seconds=5)
"""How long a reply may take before the connection counts as dead."""

FLUSHES = 4
"""How many flushes may wait for replies before further commands are gathered."""

# hiredis' own annotation knows commands of one part only.
pack = cast(Callable[[tuple[Part, ...]], bytes], cast(Any, hiredis).pack_command)


@dataclass(slots=True)
class Command:
    """A command on its way, and the future of its reply."""

    packed: bytes
    reply: asyncio.Future[Reply]
    script: Script | None = None
    rest: tuple[Part, ...] = ()
    closes_flush: bool = False
    sent: float = 0.0

    def fail(self, error: Exception) -> None:
        """Tell the caller of an error, if it still waits."""
        if not self.reply.done():
            self.reply.set_exception(error)

    def answer(self, value: Reply) -> None:
        """Give the caller its reply, if it still waits."""
        if not self.reply.done():
            self.reply.set_result(value)


class Wire:
    """A connection that many commands share. Once broken it stays so; the next is a new one."""

    def __init__(
        self, connection: Any, owner: Owner, *, on_unknown_script: Callable[[Command], None]
    ) -> None:
        self._connection = connection
        self._on_unknown_script = on_unknown_script
        self._loop = asyncio.get_running_loop()
        self._sent: deque[Command] = deque()
        self._flushes = 0
        self._watchdog: asyncio.TimerHandle | None = None
        self.is_read_only = False
        self.room = asyncio.Event()
        self.reader = owner.start(self._read(), name="link reader")

    @property
    def is_broken(self) -> bool:
        """Whether nothing can be sent on it any more."""
        return self.is_read_only or self.reader.done()

    @property
    def is_full(self) -> bool:
        """Whether as many flushes wait as may."""
        return self._flushes >= FLUSHES and not self.is_broken

    async def write(self, commands: Sequence[Command]) -> None:
        """Write the commands in one go; their replies reach their futures later."""
        now = self._loop.time()
        for command in commands:
            command.sent = now
        commands[-1].closes_flush = True
        self._flushes += 1
        if self._flushes >= FLUSHES:
            self.room.clear()
        self._sent.extend(commands)
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(PATIENCE.total_seconds(), self._watch)
        packed = b"".join([command.packed for command in commands])
        await self._connection.send_packed_command(packed, check_health=False)

    async def close(self) -> None:
        """Stop reading; whoever still waits gets a connection error."""
        self.reader.cancel()
        await asyncio.wait([self.reader])

    def _watch(self) -> None:
        self._watchdog = None
        if not self._sent:
            return
        left = self._sent[0].sent + PATIENCE.total_seconds() - self._loop.time()
        if left <= 0:
            self.reader.cancel()
        else:
            self._watchdog = self._loop.call_later(left, self._watch)

    async def _read(self) -> None:
        error: Exception = RedisConnectionError("the server did not answer in time")
        try:
            while not self.is_read_only:
                await self._read_one()
            error = RedisConnectionError("the server became read-only")
        except (RedisError, OSError) as broken:
            error = as_lost(broken)
        finally:
            self._break(error)
            await self._connection.disconnect(nowait=True)

    async def _read_one(self) -> None:
        try:
            value = await self._connection.read_response(disable_decoding=True)
        except ReadOnlyError as error:
            # A server that lost its rank answers nothing more that we want to hear.
            self.is_read_only = True
            self._take().fail(as_lost(error))
        except NoScriptError as error:
            command = self._take()
            if command.script is None:
                command.fail(error)
            else:
                self._on_unknown_script(command)
        except redis.ResponseError as error:
            self._take().fail(error)
        else:
            self._take().answer(value)

    def _take(self) -> Command:
        if not self._sent:
            raise RedisConnectionError("the server answered what nobody asked")
        command = self._sent.popleft()
        if command.closes_flush:
            self._flushes -= 1
            self.room.set()
        return command

    def _break(self, error: Exception) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        fail_all(self._sent, error)
        self._sent.clear()
        self.room.set()


def fail_all(commands: Iterable[Command], error: Exception) -> None:
    """Tell every caller that still waits of the error."""
    for command in commands:
        command.fail(error)


def as_lost(error: Exception) -> Exception:
    """Return the error as the one that callers take for a lost connection."""
    if isinstance(error, RedisConnectionError):
        return error
    lost = RedisConnectionError(str(error))
    lost.__cause__ = error
    return lost
