"""One connection to an MCP server: opened by a task of its own, and closed by that task.

The client's context managers have to be left in the task that entered them, so calls only borrow
the client; whoever cancels a call leaves the connection to the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from mcp import Client, MCPError
from mcp.types import Tool

from loops.guard import Raised, outcome_of
from loops.tasks import Owner, Signal

from .mcp_transport import UNSENT, Server

T = TypeVar("T")

CLOSING = timedelta(seconds=10)
"""How long a server gets to end; the client itself kills a process that takes half of it."""


class BrokenError(Exception):
    """The connection broke before anything was sent over it, so another one may be tried."""


class UnreachableError(Exception):
    """The connection could not be opened; the cause says why."""


class Connection:
    """A connection that closes by itself when nobody needs it for a while."""

    def __init__(self, server: Server, *, name: str, limit: timedelta, idle: timedelta) -> None:
        self.tools: Sequence[Tool] = ()
        """What the server offered when it was asked last."""
        self._server, self._limit, self._idle = server, limit, idle
        self._client: Client | None = None
        self._problem: BaseException | None = None
        self._uses = 0
        self._is_retired = self._is_closing = False
        self._opened, self._changed = asyncio.Event(), Signal()
        self._owner = Owner()
        self._task = self._owner.start(self._live(), name=f"mcp server {name}")

    @property
    def is_over(self) -> bool:
        """Whether it is closed, and nothing of it is left."""
        return self._task.done()

    @property
    def is_retired(self) -> bool:
        """Whether nobody may begin to use it any more; those who do go on."""
        return self._is_retired

    def retire(self) -> None:
        """Take no new uses, and close after the last one of those that are under way."""
        self._is_retired = True
        self._changed.call()

    async def use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Return what the work gives that is done with the client, once that is connected.

        Raises:
            UnreachableError: When it could not be connected.
            BrokenError: When the connection broke before the work could begin.
        """
        await self._opened.wait()
        if self._problem is not None:
            raise UnreachableError from self._problem
        if self._client is None or self._is_retired:
            raise BrokenError
        self._uses += 1
        try:
            return await work(self._client)
        finally:
            self._uses -= 1
            self._changed.call()

    async def refresh(self, client: Client) -> None:
        """Ask the server for its tools, all pages of them."""
        tools: list[Tool] = []
        seen: set[str | None] = set()
        cursor: str | None = None
        while cursor not in seen:
            seen.add(cursor)
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor or None
        self.tools = tools

    async def close(self) -> None:
        """Close the connection under whoever still uses it, and wait until it is closed."""
        self._is_retired = self._is_closing = True
        self._changed.call()
        if self._opened.is_set():
            await asyncio.wait([self._task], timeout=CLOSING.total_seconds())
        await self._owner.close()

    async def _live(self) -> None:
        try:
            outcome = await outcome_of(self._serve)
            if isinstance(outcome, Raised) and self._client is None:
                self._problem = outcome.error
        finally:
            self._client, self._is_retired = None, True
            self._opened.set()

    async def _serve(self) -> None:
        seconds = self._limit.total_seconds()
        transport = self._server.open(self.retire)
        async with Client(transport, read_timeout_seconds=seconds, cache=None) as client:
            await self.refresh(client)
            self._client = client
            self._opened.set()
            await self._unneeded()

    async def _unneeded(self) -> None:
        """Wait until nobody uses the connection for a while, or nobody may any more."""
        while not self._is_closing and (self._uses or not self._is_retired):
            change = self._changed.wait()
            limit = None if self._uses else self._idle.total_seconds()
            await asyncio.wait([change], timeout=limit)
            if not change.done() and not self._uses:
                break
            change.cancel()
        self._is_retired = True


def unsent_method(error: BaseException) -> str | None:
    """Return the method of the request that had no effect, empty if none was made; else None."""
    if isinstance(error, BrokenError):
        return ""
    told = str(error.data) if isinstance(error, MCPError) else ""
    return told.removeprefix(UNSENT) if told.startswith(UNSENT) else None
