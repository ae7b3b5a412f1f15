"""Who calls: from the credentials of a request to a tenant, by one rule for every route.

With keys, each request shows one, as `Authorization: Bearer` or as `x-api-key`. Keys are known by
their SHA-256 alone, and compared as bytes. Without keys the server is for this machine: any
credential is ignored, and what does not come from and address this machine is turned away, so that
no page of the internet can reach it through a browser.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_address

from worker.settings import Settings

from . import tickets
from .errors import Refusal

DEFAULT_TENANT = "default"
"""Whose runs they are when a key names no tenant, or there are no keys."""

IN_ADDRESS = frozenset(
    {"access_token", "api-key", "api_key", "apikey", "authorization", "key", "token", "x-api-key"}
)
"""Names under which a key might be sent in an address: refused, since addresses end up in logs."""


_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::[0-9]{1,5})?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from."""

    tenant: str
    digest: bytes
    """The SHA-256 of the caller's key, with which its tickets are signed."""

    @property
    def key_id(self) -> str:
        """A name for the key that tells nothing about it."""
        return sha256(self.digest).hexdigest()[:16]


class Keyring:
    """The keys that open the API; an empty one means that it serves this machine alone."""

    def __init__(self, callers: Iterable[Caller] = ()) -> None:
        self._by_digest = {caller.digest: caller for caller in callers}
        self._by_id = {caller.key_id: caller for caller in self._by_digest.values()}
        self.local = Caller(DEFAULT_TENANT, secrets.token_bytes(32))
        """Who calls when there are no keys."""

    @property
    def is_empty(self) -> bool:
        """Whether no key is needed."""
        return not self._by_digest

    def find(self, key: bytes) -> Caller | None:
        """Return whose key it is."""
        return self._by_digest.get(sha256(key).digest())

    def by_id(self, key_id: str) -> Caller | None:
        """Return whose key has the id."""
        return self._by_id.get(key_id)


def keyring_of(settings: Settings) -> Keyring:
    """Return the configured keys, each `key` or `tenant:key`; the former are one tenant's."""
    return Keyring(_caller(entry.get_secret_value()) for entry in settings.api_keys)


def _caller(entry: str) -> Caller:
    tenant, _, key = entry.rpartition(":")
    return Caller(tenant or DEFAULT_TENANT, sha256(key.encode()).digest())


@dataclass(frozen=True, slots=True)
class Knock:
    """What of a request decides who it comes from."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    """Names are in lower case."""
    query: tuple[tuple[str, str], ...]
    client: str | None
    """The address from which it comes, None for a socket in the file system."""

    def values(self, name: bytes) -> list[bytes]:
        """Return all values of a header."""
        return [value for key, value in self.headers if key == name]


def identify(knock: Knock, keyring: Keyring, now: datetime) -> Caller:
    """Return who calls.

    Raises:
        Refusal: 401 without a key, with an unknown one, or with two that differ.
    """
    shown = _shown_keys(knock)
    ticket = next((value for name, value in knock.query if name == "ticket"), None)
    if ticket is not None and not shown:
        return _by_ticket(knock, keyring, ticket, now)
    if len(shown) != 1:
        told = "more than one key" if shown else "no key"
        raise _unauthorized(f"the request shows {told}; send one, as 'Authorization: Bearer KEY'")
    caller = keyring.find(shown.pop())
    if caller is None:
        raise _unauthorized("the key is unknown")
    return caller


def _shown_keys(knock: Knock) -> set[bytes]:
    if any(name.lower() in IN_ADDRESS for name, _ in knock.query):
        raise _unauthorized("a key in the address is refused: it would end up in logs")
    shown = {value.strip() for value in knock.values(b"x-api-key")}
    for value in knock.values(b"authorization"):
        scheme, _, key = value.strip().partition(b" ")
        if scheme.lower() != b"bearer" or not key.strip():
            raise _unauthorized("the Authorization header is not 'Bearer KEY'")
        shown.add(key.strip())
    return shown


def _by_ticket(knock: Knock, keyring: Keyring, text: str, now: datetime) -> Caller:
    ticket = tickets.read(text)
    caller = keyring.by_id(ticket.key_id) if ticket else None
    if ticket is None or caller is None or not tickets.is_signed(text, caller.digest):
        raise _unauthorized("the ticket is not one of this server's")
    if knock.method != "GET" or knock.path != f"/v1/runs/{ticket.run_id}/events":
        raise _unauthorized("the ticket is for another stream")
    if ticket.expires_at <= now:
        raise _unauthorized("the ticket's time is over; ask for a new one")
    return caller


def check_is_local(knock: Knock, origins: Iterable[str]) -> None:
    """Turn away what is not of this machine, but for pages of the origins.

    Raises:
        Refusal: 421 for a foreign host, 403 for a foreign origin or client.
    """
    hosts = [value.decode("latin-1") for value in knock.values(b"host")]
    if len(hosts) != 1 or not _is_local(hosts[0]):
        raise Refusal(
            HTTPStatus.MISDIRECTED_REQUEST,
            "foreign_host",
            "without API keys this server answers under the names of this machine alone",
        )
    for value in knock.values(b"origin"):
        origin = value.decode("latin-1")
        if origin not in origins and not _is_local_page(origin):
            raise _forbidden(
                "foreign_origin", f"the origin {origin[:100]!r} is not of this machine"
            )
    if knock.client is not None and not is_loopback(knock.client):
        raise _forbidden("foreign_client", "without API keys this server serves this machine alone")


def _is_local(authority: str) -> bool:
    # Strict: whatever is no plain name or address with a port is read in two ways by somebody.
    found = _AUTHORITY.fullmatch(authority)
    return found is not None and is_loopback((found[1] or found[2]).lower())


def _is_local_page(origin: str) -> bool:
    scheme = _SCHEME.match(origin)
    return scheme is not None and _is_local(origin[scheme.end() :])


def is_loopback(host: str | None) -> bool:
    """Say whether the host is this machine, for itself alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def _unauthorized(message: str) -> Refusal:
    headers = {"WWW-Authenticate": "Bearer"}
    return Refusal(HTTPStatus.UNAUTHORIZED, "unauthorized", message, headers=headers)


def _forbidden(code: str, message: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, code, message)


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)
