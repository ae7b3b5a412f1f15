"""Tickets: the right to read one run's stream for a while, as text that may stand in an address.

A ticket names the key that asked for it and is signed with that key's digest, so that all servers
of a deployment accept it without sharing anything else, and it ends with its key.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

LIFE = timedelta(hours=1)
"""How long a ticket opens its stream; a stream that is open goes on."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a ticket says."""

    key_id: str
    run_id: str
    expires_at: datetime


def issue(ticket: Ticket, digest: bytes) -> str:
    """Return the ticket as text, signed with the digest of its key."""
    text = f"{ticket.key_id}.{ticket.run_id}.{int(ticket.expires_at.timestamp())}"
    return f"{text}.{_signature(text, digest).decode()}"


def read(text: str) -> Ticket | None:
    """Return what the text claims, None when it is no ticket; the claim still has to be proved."""
    match text.split("."):
        case [key_id, run_id, expires, _] if expires.isascii() and expires.isdigit():
            return _ticket(key_id, run_id, expires)
        case _:
            return None


def is_signed(text: str, digest: bytes) -> bool:
    """Say whether the ticket was signed with this key's digest."""
    claim, _, signature = text.rpartition(".")
    return hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(claim, digest))


def _ticket(key_id: str, run_id: str, expires: str) -> Ticket | None:
    if len(expires) > 11:
        return None
    return Ticket(key_id, run_id, datetime.fromtimestamp(int(expires), UTC))


def _signature(text: str, digest: bytes) -> bytes:
    claim = b"loopmill ticket v1\n" + text.encode("utf-8", "replace")
    return urlsafe_b64encode(hmac.new(digest, claim, sha256).digest()).rstrip(b"=")
