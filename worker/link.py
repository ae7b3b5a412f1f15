"""Many commands, few round trips: everything a process asks of Redis goes through one connection.

Commands issued in the same tick of the event loop are written together, and reach the server in
the order in which they were issued. While a few such flushes wait for their replies, further
commands gather for the next one. Connecting, TLS, AUTH and Sentinel are redis-py's work.

* A caller's cancellation cancels its own wait, never what others sent with it.
* One command's error reaches its caller alone; a lost connection reaches all who wait.
* A command whose reply was lost may have been done: whoever repeats it must bear that.
* Nothing that blocks at the server (BLPOP, XREAD BLOCK) may be sent here: use `client`.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import redis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from loops.tasks import Owner

from .address import CONNECT_LIMIT, Address, close_blocking_client, close_client
from .scripts import script
from .wire import Command, Part, Reply, Wire, as_lost, fail_all, pack


class Link:
    """A shared way to the server. Made by `open_link`, which also closes it."""

    def __init__(self, client: Redis, blocking: redis.Redis | None = None) -> None:
        self.client = client
        """redis-py's client behind the link, for pub/sub and reads that block."""
        self.blocking = blocking
        """A client for a thread of its own, if the link knows how to make one."""
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Command] = []
        self._work = asyncio.Event()
        self._wire: Wire | None = None
        self._closed = False
        self._owner = Owner()
        self._pump = self._owner.start(self._flush_for_ever(), name="link")

    def send(self, *parts: Part) -> asyncio.Future[Reply]:
        """Send a command, and return the future of its reply.

        A command whose future is cancelled before the tick ends is not sent.

        Raises:
            TypeError: When a part is no text, bytes or number.
            redis.exceptions.ConnectionError: When the link is closed.
        """
        return self._gather(Command(pack(parts), self._loop.create_future()))

    def send_script(
        self, name: str, keys: Sequence[Part] = (), arguments: Sequence[Part] = ()
    ) -> asyncio.Future[Reply]:
        """Send a call of `lua/<name>.lua`, and return the future of its reply."""
        called = script(name)
        rest = (len(keys), *keys, *arguments)
        packed = pack(("EVALSHA", called.sha, *rest))
        return self._gather(Command(packed, self._loop.create_future(), called, rest))

    async def command(self, *parts: Part) -> Reply:
        """Send a command and return its reply.

        Raises:
            redis.exceptions.ResponseError: When the server refuses the command.
            redis.exceptions.ConnectionError: When the connection was lost, or cannot be made.
        """
        return await self.send(*parts)

    async def all(self, commands: Iterable[Sequence[Part]]) -> list[Reply]:
        """Send the commands in one go, and return their replies once all have come.

        Raises:
            redis.exceptions.RedisError: The first command's error that had one.
        """
        replies = [self.send(*parts) for parts in commands]
        try:
            if replies:
                await asyncio.wait(replies)
        finally:
            for reply in replies:
                reply.cancel()
        # Each error is looked at, else asyncio reports it as one that nobody saw.
        errors = [error for reply in replies if (error := reply.exception()) is not None]
        if errors:
            raise errors[0]
        return [reply.result() for reply in replies]

    async def run(
        self, name: str, keys: Sequence[Part] = (), arguments: Sequence[Part] = ()
    ) -> Reply:
        """Call `lua/<name>.lua` and return its reply; a server that forgot it gets it again."""
        return await self.send_script(name, keys, arguments)

    async def aclose(self) -> None:
        """Fail what still waits, and close the connection; the client stays its opener's."""
        self._closed = True
        self._pump.cancel()
        await asyncio.wait([self._pump])
        if self._wire is not None:
            await self._wire.close()
        fail_all(self._gathered, RedisConnectionError("the link is closed"))

    def _gather(self, command: Command) -> asyncio.Future[Reply]:
        if self._closed:
            raise RedisConnectionError("the link is closed")
        self._gathered.append(command)
        self._work.set()
        return command.reply

    async def _flush_for_ever(self) -> None:
        while True:
            await self._work.wait()
            if self._wire is not None and self._wire.is_full:
                await self._wire.room.wait()
            self._work.clear()
            gathered, self._gathered = self._gathered, []
            commands = [command for command in gathered if not command.reply.done()]
            try:
                if commands:
                    await self._flush(commands)
            except (RedisError, OSError) as error:
                fail_all(commands, as_lost(error))
            finally:
                # What was not sent by now never will be.
                unsent = (command for command in commands if not command.sent)
                fail_all(unsent, RedisConnectionError("the connection to the server was lost"))

    async def _flush(self, commands: Sequence[Command]) -> None:
        if self._wire is None or self._wire.is_broken:
            # TimeoutError is an OSError: a server that does not answer is one that is away.
            async with asyncio.timeout(2 * CONNECT_LIMIT):
                self._wire = await self._connect()
        await self._wire.write(commands)

    async def _connect(self) -> Wire:
        pool = cast(Any, self.client.connection_pool)
        if self._wire is not None and self._wire.is_read_only:
            # Every connection of the client leads to the server that lost its rank.
            await pool.disconnect(inuse_connections=True)
        connection = pool.make_connection()
        # No limit a reply: the wire's watchdog keeps one for all that wait.
        connection.socket_timeout = None
        await connection.connect()
        return Wire(connection, self._owner, on_unknown_script=self._send_text)

    def _send_text(self, command: Command) -> None:
        if command.script is not None and not command.reply.done() and not self._closed:
            packed = pack(("EVAL", command.script.text, *command.rest))
            self._gather(Command(packed, command.reply))


@asynccontextmanager
async def open_link(
    target: str | Redis, *, blocking: redis.Redis | None = None
) -> AsyncGenerator[Link]:
    """Open a link to a URL, or over a client; a client that was given is not closed.

    No connection is made before the first command, so that a process may start before its server.
    `blocking` is a client for the thread that renews leases; a URL gives one by itself.
    """
    if isinstance(target, str):
        address = Address.parse(target)
        client, blocking = address.client(), address.blocking_client()
    else:
        client = target
    link = Link(client, blocking)
    try:
        yield link
    finally:
        await link.aclose()
        if isinstance(target, str):
            await close_client(client)
            if blocking is not None:
                close_blocking_client(blocking)
