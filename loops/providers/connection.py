"""Where a service is asked, and with whose key; nothing here is ever shown with the key."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import httpx

from loops.errors import SetupError

from .vendors import Vendor

DIGEST = 12
"""How many hexadecimal digits tell two accounts of a vendor apart."""


MOST_PORTS = 65_535


@dataclass(frozen=True, slots=True)
class Connection:
    """One account with a service."""

    base_url: str
    key: str = field(repr=False)
    account: str
    """A name for whoever asks there with that key; it tells nothing of the key."""


def connection_of(
    model: str, place: Vendor, *, base_url: str | None = None, api_key: str | None = None
) -> Connection:
    """Return how a model is reached: what is not given comes from the vendor's variables.

    An address that is given here gets no key but one that is given here: the vendor's is for
    nobody else.

    Raises:
        SetupError: When there is no address, or no key for the vendor's own service.
    """
    named = os.environ.get(place.address, "").strip()
    base = base_url or named or place.base_url
    if not base:
        raise SetupError(f"the model {model!r} needs an address: set {place.address}, or give one")
    is_vendors = base in {named, place.base_url}
    key = _checked(api_key, "api_key")
    if not key and is_vendors:
        key = _checked(os.environ.get(place.key), place.key)
    if not key and place.key and base == place.base_url:
        raise SetupError(f"the model {model!r} needs a key: set {place.key}, or give api_key")
    digest = sha256(f"{base.strip().rstrip('/')}\0{key}".encode()).hexdigest()
    return Connection(base, key, f"{model.partition('/')[0]}:{digest[:DIGEST]}")


def _checked(given: str | None, name: str) -> str:
    key = (given or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SetupError(f"the key ({name}) holds characters that no header can carry")
    return key


def named(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by their names in lower case, so that each is sent once.

    Raises:
        SetupError: When one holds what no header can carry; its value is not shown.
    """
    for name, value in headers.items():
        told = f"{name}{value}"
        if not (told.isascii() and told.isprintable()):
            raise SetupError(f"the header {name!r} holds characters that no header can carry")
    return {name.strip().lower(): value for name, value in headers.items()}


def address_of(given: str, path: str) -> str:
    """Return the address of a service's path.

    Raises:
        SetupError: When what was given is none, or holds more than a scheme, a host and a path: a
            user and a password would be sent and logged in the place of the key.
    """
    address = given.strip().rstrip("/")
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.userinfo or "@" in address:
        raise SetupError("an address has no user and no password in it; give the key as api_key")
    # What no host can have is escaped by the library, and not refused.
    is_host = bool(url.host) and "%" not in url.host
    is_whole = url.scheme in {"http", "https"} and is_host and (url.port or 0) <= MOST_PORTS
    if not is_whole or url.query or url.fragment:
        raise SetupError(
            f"an address begins with https:// or http:// and a host, and ends with a path; "
            f"not {address.partition('?')[0]!r}"
        )
    return f"{address}{path}"
