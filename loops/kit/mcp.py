"""MCP servers as sources of tools: a process of ours or a URL, through the official package.

To import this module takes about a second, since the package brings its server along.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult

from loops.blocks import Raw
from loops.errors import SetupError, ToolError, ToolFailed, ToolTimedOut
from loops.guard import Raised, describe, outcome_of, renaming, unwrapped
from loops.jsonable import fit
from loops.naming import did_you_mean
from loops.tools import Tool, tool

from .mcp_connection import Connection, UnreachableError, unsent_method
from .mcp_content import clean_names, text_of, value_of
from .mcp_setup import (
    check_allowed,
    check_command,
    check_name,
    check_secrets,
    check_time,
    check_url,
    shown_url,
    without_secrets,
)
from .mcp_transport import Child, Remote, Server

T = TypeVar("T")

SPARE = timedelta(seconds=1)
"""How long before the tool's own limit a call is given up, at most: that limit cannot name the
server's tool, and the server is to hear that nobody waits any more."""


@dataclass(frozen=True, eq=False, repr=False)
class MCP:
    """A server whose tools a model may call: either a `command` of ours, or a `url`.

    All calls of a process to one such object go over one connection, which is opened when it is
    first needed and closed when nobody needs it for a while. A call is made once: when the
    connection breaks under it, it has failed, since it may have had its effect.

    Raises:
        SetupError: When the values do not fit together; the text names the one and its mend.
    """

    name: str
    """1 to 32 letters, digits, '-' or single '_': what stands before the names of its tools."""
    _: KW_ONLY
    command: str | None = None
    """The program that is started; it speaks through its standard input and output."""
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    """Variables for the program besides PATH, HOME and the like; never shown to anybody."""
    url: str | None = None
    """Where the server is that speaks streamable HTTP."""
    headers: Mapping[str, str] | None = None
    """Headers of each request to the URL, such as Authorization; never shown to anybody."""
    allowed: Collection[str] | None = None
    """The tools that may be called, by the server's own names; None for all."""
    timeout: timedelta = timedelta(minutes=1)
    """How long one call may take, and how long the server may take to say what it has."""
    read_only: bool = False
    """Whether the tools change nothing."""
    idle: timedelta = timedelta(minutes=1)
    """How long the connection is kept when nobody calls; a process is ended with it."""
    _connections: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Connection]] = field(
        init=False, default_factory=WeakKeyDictionary[Any, Any]
    )

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_place(self)
        check_secrets(self.name, "env", self.env)
        check_secrets(self.name, "headers", self.headers)
        check_time(self.name, "timeout", self.timeout)
        check_time(self.name, "idle", self.idle)
        check_allowed(self.name, self.allowed)

    def __repr__(self) -> str:
        place = f"command={self.command!r}" if self.url is None else f"url={shown_url(self.url)!r}"
        return f"MCP({self.name!r}, {place})"

    async def discover(self) -> list[dict[str, Any]]:
        """Return the server's tools as specs for a model, in the server's order.

        Each is named with the server's name, two underscores, and the tool's own name, changed
        where a provider would not take it. What follows the underscores is what `tool()` calls.

        Raises:
            ToolFailed: When the server cannot be asked; the text says why.
            ToolTimedOut: When it takes longer than `timeout`.
        """
        return await self._asked("its list of tools", self._specs)

    def tool(self) -> Tool:
        """Return the one tool that calls any of the server's; the same object each time.

        It takes the server's own name of a tool, or what `discover` made of it, and the arguments.
        It gives text, or blocks in Anthropic's shape, or a JSON value; what the server calls an
        error raises `ToolFailed` with its text.
        """
        return self._tool

    async def close(self) -> None:
        """Close the connection of the running event loop, if there is one; a later call opens it.

        Calls that are under way fail. A process of ours has ended when this returns.
        """
        for connection in self._connections.pop(asyncio.get_running_loop(), []):
            await connection.close()

    @cached_property
    def _tool(self) -> Tool:
        async def call(tool: str, arguments: dict[str, Any]) -> Any:
            return await self._asked(f"the tool {tool!r}", partial(self._called, tool, arguments))

        return tool(
            name=f"mcp_{self.name}",
            description=f"Call a tool of the MCP server {self.name!r}.",
            timeout=self.timeout,
            read_only=self.read_only,
        )(call)

    @cached_property
    def _server(self) -> Server:
        if self.command is not None:
            return Child(self.command, self.args, self.env or {})
        return Remote(self.url or "", self.headers or {}, self.timeout)

    async def _specs(self, connection: Connection, client: Client) -> list[Raw]:
        await connection.refresh(client)
        names = self._names(connection)
        offered = {each.name: each for each in reversed(connection.tools)}
        specs = [
            {
                "type": "custom",
                "name": f"{self.name}__{clean}",
                "description": offered[own].description or offered[own].title or "",
                "input_schema": {"type": "object", **offered[own].input_schema},
            }
            for own, clean in names.items()
        ]
        return cast("list[Raw]", fit(specs))

    def _names(self, connection: Connection) -> dict[str, str]:
        """Return the server's own names, and what each is called behind the prefix."""
        names = clean_names((each.name for each in connection.tools), prefix=f"{self.name}__")
        return {own: names[own] for own in names if self.allowed is None or own in self.allowed}

    async def _called(
        self, tool: str, arguments: dict[str, Any], connection: Connection, client: Client
    ) -> Any:
        own = self._own_name(connection, tool)
        if own is None:
            # It may be newer than the connection.
            await connection.refresh(client)
            own = self._own_name(connection, tool)
        if own is None:
            names = self._names(connection)
            mend = did_you_mean(tool, names) or f"; it has {', '.join(names) or 'none'}"
            raise ToolFailed(f"the MCP server {self.name!r} has no tool {tool!r}{mend}")
        with renaming(_of_call):
            result = await client.call_tool(own, arguments)
        return self._result(own, result)

    def _own_name(self, connection: Connection, tool: str) -> str | None:
        # A name that is one of the server's own stands for itself behind the prefix as well.
        names = self._names(connection)
        return tool if tool in names else {names[own]: own for own in names}.get(tool)

    def _result(self, tool: str, result: CallToolResult) -> Any:
        if not result.is_error:
            return value_of(result)
        text = text_of(result) or f"{tool!r} of the MCP server {self.name!r} failed without a word"
        raise ToolFailed(self._hidden(text))

    async def _asked(self, what: str, work: Callable[[Connection, Client], Awaitable[T]]) -> T:
        """Return what the server answers.

        Raises:
            ToolFailed: When it does not.
            ToolTimedOut: When it does not in time.
        """
        limit = self.timeout - min(self.timeout / 20, SPARE)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                outcome = await self._outcome(work)
        except TimeoutError as error:
            raise self._timed_out(what) from error
        if isinstance(outcome, Raised):
            raise self._failure(what, unwrapped(outcome.error))
        return outcome

    async def _outcome(self, work: Callable[[Connection, Client], Awaitable[T]]) -> T | Raised:
        connection = self._connection()
        outcome = await outcome_of(partial(connection.use, partial(work, connection)))
        if not isinstance(outcome, Raised) or unsent_method(outcome.error) is None:
            return outcome
        connection.retire()
        connection = self._connection()
        return await outcome_of(partial(connection.use, partial(work, connection)))

    def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        opened = [each for each in self._connections.get(loop, []) if not each.is_over]
        self._connections[loop] = opened
        if not opened or opened[-1].is_retired:
            opened.append(
                Connection(self._server, name=self.name, limit=self.timeout, idle=self.idle)
            )
        return opened[-1]

    def _failure(self, what: str, error: BaseException) -> ToolError:
        if isinstance(error, ToolError):
            return error
        words = self._server.last_words
        said = f"; it last said: {words}" if words else ""
        if isinstance(error, UnreachableError) and error.__cause__ is not None:
            reason = describe(error.__cause__)
            text = f"the MCP server {self.name!r} could not be reached for {what}: {reason}{said}"
        elif isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            reason = f"which may have been done: {describe(error)}{said}"
            text = f"the MCP server {self.name!r} went away at {what}, {reason}"
        else:
            text = f"the MCP server {self.name!r} failed at {what}: {describe(error)}"
        failure = ToolFailed(self._hidden(text))
        failure.__cause__ = error if str(failure) == text else None
        return failure

    def _timed_out(self, what: str) -> ToolTimedOut:
        return ToolTimedOut(
            f"the MCP server {self.name!r} took longer for {what} than {self.timeout}"
        )

    def _hidden(self, text: str) -> str:
        """Return the text without the secrets that a server may have told in an error."""
        return without_secrets(text, [*(self.env or {}).values(), *(self.headers or {}).values()])


def _of_call(error: Exception) -> Exception:
    """Return the error of a call, or another one if the call had been answered before.

    The package may look at the list of tools after a call: that is no reason to call again.
    """
    if unsent_method(error) == "tools/list":
        return RuntimeError(f"it answered, and went away before its answer was checked: {error}")
    return error


def _check_place(server: MCP) -> None:
    named = f"the MCP server {server.name!r}"
    if (server.command is None) == (server.url is None):
        given = "no place" if server.url is None else "two places"
        raise SetupError(f"{named} has {given}; give it either command= or url=")
    if server.url is None:
        if server.headers is not None:
            raise SetupError(f"{named} is a command, which takes no headers=; give it env=")
        check_command(server.name, server.command, server.args)
    else:
        if server.args or server.env is not None:
            raise SetupError(
                f"{named} is at a URL, which takes neither args= nor env=; give it headers="
            )
        check_url(server.name, server.url)
