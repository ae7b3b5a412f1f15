"""Which addresses of the network a model may have asked, and which URLs are read at all.

Two checks, since neither is enough by itself. A URL is looked at before anything is resolved, so
that there is one way to read it: what a browser would take for `127.0.0.1` and what Python takes
for a name is refused. Then each address that the name stands for is looked at, and only that very
address may be connected to, or a second answer of the name server would undo the check.
"""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urljoin

import httpx

from loops.errors import ToolFailed, ToolRejected

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses that a name and a port stand for, the best one first."""

IsAllowed = Callable[[str], bool]
"""Says whether an address may be connected to."""

PORTS = frozenset({80, 443})
"""The ports of the web."""

LONGEST = 2048
"""How many characters a URL may have."""

_V4_REFUSED = [
    ipaddress.IPv4Network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Nobody else's but the host's of a virtual machine, though it looks like any other.
        "168.63.129.16/32",
    )
]

_V6_GLOBAL = ipaddress.IPv6Network("2000::/3")
"""All that is routed to strangers; loopback, link-local, unique local and multicast lie outside."""

_V6_REFUSED = [
    ipaddress.IPv6Network(each)
    # Special uses and Teredo, documentation, 6to4, documentation: a tunnel ends who knows where.
    for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
]

_V6_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""How networks without IPv4 reach the rest of the world: the last 32 bits are the address."""


def is_public(address: str) -> bool:
    """Say whether an address belongs to the public internet; what is no address does not.

    An IPv6 address that stands for one of IPv4 is as public as that one. Tunnels never are.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_public_v4(parsed)
    if parsed.scope_id is not None:
        return False
    if parsed.ipv4_mapped is not None:
        return _is_public_v4(parsed.ipv4_mapped)
    if parsed in _V6_TRANSLATED:
        return _is_public_v4(ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF))
    return parsed in _V6_GLOBAL and not any(parsed in network for network in _V6_REFUSED)


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return not any(address in network for network in _V4_REFUSED)


_SHAPE = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]{1,5})?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS = frozenset("\u3002\uff0e\uff61")
"""What international names may have in the place of a dot."""


def checked_url(
    text: str, *, allowed_ports: Collection[int] = PORTS, is_allowed: IsAllowed = is_public
) -> httpx.URL:
    """Return the URL without its fragment, its host in lower case ASCII.

    Nothing is resolved. A host that is an address is held against `is_allowed`; a host that is a
    name is to be resolved once, and each of its addresses to be held against it.

    Raises:
        ToolRejected: When it is no URL of the web, or could be read in two ways; the text names
            its host, and never a user or a password.
    """
    host = _host_of(text)
    try:
        url = httpx.URL(text).copy_with(fragment=None)
    except httpx.InvalidURL as error:
        raise ToolRejected(f"the URL with the host {_shown(host)} cannot be read") from error
    if port_of(url) not in allowed_ports:
        allowed = ", ".join(map(str, sorted(allowed_ports)))
        raise ToolRejected(
            f"the port {port_of(url)} of {_shown(host)} is not allowed; use one of {allowed}"
        )
    _check_host(url.raw_host.decode("ascii"), is_allowed)
    return url


def checked_redirect(
    url: httpx.URL,
    location: str,
    *,
    allowed_ports: Collection[int] = PORTS,
    is_allowed: IsAllowed = is_public,
) -> httpx.URL:
    """Return where a redirect leads, checked as if a model had written it.

    Raises:
        ToolRejected: When that is no URL, or one that may not be asked.
    """
    if not location.isprintable():
        # Joining would silently drop some of these characters.
        raise ToolRejected(f"{url.host!r} redirects to what is no URL")
    try:
        target = urljoin(str(url), location.replace(" ", "%20"))
        return checked_url(target, allowed_ports=allowed_ports, is_allowed=is_allowed)
    except ValueError as error:
        raise ToolRejected(f"{url.host!r} redirects to what is no URL") from error
    except ToolRejected as error:
        raise ToolRejected(f"{url.host!r} redirects to what may not be asked: {error}") from error


def port_of(url: httpx.URL) -> int:
    """Return the port that is connected to, whether the URL names it or not."""
    if url.port is not None:
        return url.port
    return 443 if url.scheme == "https" else 80


def _shown(host: str) -> str:
    return repr(host if len(host) <= 100 else f"{host[:100]}…")


def _host_of(text: str) -> str:
    """Return the host as it is written, if there is one way to read the URL."""
    if len(text) > LONGEST:
        raise ToolRejected(f"the URL has {len(text)} characters; {LONGEST} is the most")
    if not text.isprintable() or " " in text or "\\" in text:
        raise ToolRejected(
            "the URL has a space, a backslash or a character that cannot be seen; percent-encode it"
        )
    shape = _SHAPE.match(text)
    if shape is None:
        raise ToolRejected("a URL begins with http:// or https:// and a host")
    authority = shape[2]
    if "@" in authority:
        raise ToolRejected("the URL has a user or a password in front of its host; leave them out")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise ToolRejected(f"the host and port {_shown(authority)} cannot be read")
    host = parts[1]
    # Full-width letters, circled digits and the like: other programs read them as plain ones.
    if not _DOTS.isdisjoint(host) or unicodedata.normalize("NFKC", host) != host:
        raise ToolRejected(f"the host {_shown(host)} has a character that stands for another one")
    return host


def _check_host(host: str, is_allowed: IsAllowed) -> None:
    labels = host.split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1]):
        _check_address(host, is_allowed)
    elif len(labels) < 2 or labels[-1] in {"", "localhost"}:
        raise ToolRejected(
            f"{_shown(host)} is no public name; those have a dot in the middle, and none at the end"
        )
    elif len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ToolRejected(f"the host {_shown(host)} is no name that a name server knows")


def _check_address(host: str, is_allowed: IsAllowed) -> None:
    if not is_address(host) or "%" in host:
        raise ToolRejected(
            f"the host {_shown(host)} is an address in an odd form; write its four numbers plainly"
        )
    if not is_allowed(host):
        raise ToolRejected(f"{_shown(host)} is no address of the public internet")


def is_address(host: str) -> bool:
    """Say whether a host is an address already, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolved(name: str, port: int) -> list[str]:
    """Return what the system says of a name: its addresses, each once, the best one first.

    Raises:
        OSError: When the name has none.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def allowed_addresses(
    url: httpx.URL, resolve: Resolve, *, is_allowed: IsAllowed = is_public
) -> list[str]:
    """Resolve the host of a checked URL, once, and return its addresses.

    One address that is not allowed refuses all of them: the name is in somebody's hands who wants
    to have it both ways.

    Raises:
        ToolFailed: When the name has no address.
        ToolRejected: When one is not allowed.
    """
    host = url.raw_host.decode("ascii")
    try:
        addresses = [host] if is_address(host) else await resolve(host, port_of(url))
    except OSError as error:
        raise ToolFailed(f"the name {host!r} cannot be resolved; is it spelled well?") from error
    if not addresses:
        raise ToolFailed(f"the name {host!r} has no address; is it spelled well?")
    if not all(map(is_allowed, addresses)):
        # Which address it is, is for nobody outside of this network to know.
        raise ToolRejected(f"{host!r} leads to an address that is not of the public internet")
    return addresses
