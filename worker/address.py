"""Where the server is: one URL, from which every client of a process is made.

    redis://user:password@host:6379/0          rediss://… for TLS
    unix:///path/to/socket?db=0
    redis+sentinel://user:password@h1:26379,h2:26379/master/0

User and password may be percent-encoded. Sentinel's own password is given as
`?sentinel_password=…`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.exceptions
import redis.sentinel

SENTINEL_PORT = 26379
CONNECT_LIMIT = 2.0
"""Seconds that a connection may take to stand."""

REPLY_LIMIT = 10.0
"""Seconds after which a connection without a reply counts as dead; blocking reads stay below."""

_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address. Its text never shows the password."""

    url: str = field(repr=False)
    shown: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read an address.

        Raises:
            ValueError: When the URL is not one that leads to a server.
        """
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(
                f"write a URL that begins with one of {', '.join(s + '://' for s in _SCHEMES)}"
            )
        host = parts.netloc.rpartition("@")[2]
        if parts.scheme == "unix" and not parts.path:
            raise ValueError("write the socket's path, as in unix:///run/redis.sock")
        address = cls(url, f"{parts.scheme}://{host}{parts.path}")
        if address.is_sentinel:
            _Sentinel.parse(url)
        elif parts.scheme != "unix":
            _check_host(parts.port, parts.path)
        return address

    @property
    def is_sentinel(self) -> bool:
        """Whether the URL names sentinels that know the server."""
        return self.url.partition("://")[0].endswith("+sentinel")

    def client(self) -> redis.asyncio.Redis:
        """Return a client for an event loop. It opens connections when they are needed."""
        options = _limits(REPLY_LIMIT)
        if self.is_sentinel:
            client = self._master(redis.asyncio.sentinel.Sentinel, options)
        else:
            client = cast(Any, redis.asyncio.Redis).from_url(self.url, **options)
        pool = client.connection_pool
        kind = pool.connection_class
        pool.connection_class = type(kind.__name__, (CancellableWrites, kind), {})
        return cast(redis.asyncio.Redis, client)

    def blocking_client(self) -> redis.Redis:
        """Return a client for a thread of its own, which gives up sooner than a lease ends."""
        options = _limits(CONNECT_LIMIT)
        if self.is_sentinel:
            return cast(redis.Redis, self._master(redis.sentinel.Sentinel, options))
        return cast(redis.Redis, cast(Any, redis.Redis).from_url(self.url, **options))

    def _master(self, sentinel: Any, limits: dict[str, Any]) -> Any:
        # redis-py's two Sentinel classes have no types; they are called alike.
        found = _Sentinel.parse(self.url)
        sentinels = sentinel(found.hosts, sentinel_kwargs=found.sentinel_options | limits)
        return sentinels.master_for(found.service, **(found.options | limits))


async def close_client(client: redis.asyncio.Redis) -> None:
    """Close a client that `client` made, with those through which it asked sentinels."""
    await client.aclose()
    for sentinel in _sentinels(client):
        await sentinel.aclose()


def close_blocking_client(client: redis.Redis) -> None:
    """Close a client that `blocking_client` made, with those through which it asked sentinels."""
    client.close()
    for sentinel in _sentinels(client):
        sentinel.close()


def _sentinels(client: Any) -> list[Any]:
    known = getattr(client.connection_pool, "sentinel_manager", None)
    return [] if known is None else known.sentinels


class CancellableWrites:
    """What every connection is mixed with, since a cancellation must never be lost.

    redis-py writes through `asyncio.wait_for`, which on Python 3.11 swallows a cancellation that
    comes in the tick in which the write ends: whoever waits for the task then waits for ever.
    """

    socket_timeout: float | None

    async def send_packed_command(self, command: Any, *, check_health: bool = True) -> None:
        """Write the command, within the connection's time limit."""
        limit, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                await cast(Any, super()).send_packed_command(command, check_health=check_health)
        except TimeoutError as error:
            raise redis.exceptions.TimeoutError("the server took no command in time") from error
        finally:
            self.socket_timeout = limit


def _limits(reply_limit: float) -> dict[str, Any]:
    return {"socket_connect_timeout": CONNECT_LIMIT, "socket_timeout": reply_limit}


def _check_host(port: int | None, path: str) -> None:
    if port == 0:
        raise ValueError("write a port between 1 and 65535")
    if path.strip("/") and not path.strip("/").isdigit():
        raise ValueError("write the number of the database after the host, as in /0")


@dataclass(frozen=True, slots=True)
class _Sentinel:
    hosts: list[tuple[str, int]]
    service: str
    options: dict[str, Any]
    sentinel_options: dict[str, Any]

    @classmethod
    def parse(cls, url: str) -> _Sentinel:
        scheme, _, rest = url.partition("://")
        parts = urlsplit("//" + rest)
        login, _, hosts = parts.netloc.rpartition("@")
        service, _, database = parts.path.strip("/").partition("/")
        if not hosts or not service or (database and not database.isdigit()):
            raise ValueError("write it as redis+sentinel://host:26379,host2:26379/master/0")
        user, _, password = login.partition(":")
        asked = parse_qs(parts.query)
        tls: dict[str, Any] = {"ssl": True} if scheme.startswith("rediss") else {}
        return cls(
            hosts=[_host(text) for text in hosts.split(",")],
            service=unquote(service),
            options=tls
            | {
                "db": int(database or 0),
                "username": unquote(user) or None,
                "password": unquote(password) or None,
            },
            sentinel_options=tls | {k: asked[q][0] for k, q in _OWN_LOGIN.items() if q in asked},
        )


_OWN_LOGIN = {"username": "sentinel_username", "password": "sentinel_password"}


def _host(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        return text.strip(), SENTINEL_PORT
    if not host or not port.isdigit():
        raise ValueError(f"write sentinels as host:port, not {text!r}")
    return host, int(port)
