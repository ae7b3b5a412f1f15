"""Begin a pass: take a claimed run as its own, and read what earlier passes left of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loops.errors import InvalidInput
from loops.messages import Message, Messages

from .insist import insist
from .journal import Journal
from .keys import Keys
from .link import Link
from .queue import Claim
from .run_record import RunRecord, decode_run, pairs
from .window import SessionWindow, read_messages

_DIGEST = 10
"""The length of a packed digest: two bytes of index, eight of digest."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A pass's view of its run: copies, which only the pass's own scripts outdate."""

    epoch: int
    run: RunRecord
    journal: Journal
    calls: dict[str, dict[str, bytes]]
    """The ledger: state, call, result … by call key."""
    published: Counter[bytes]
    """Digests of the yields that stand in the log, and that this pass has not met yet."""
    handed: list[str]
    """Answers from elsewhere, in the order in which they reached the loop."""
    window: SessionWindow
    """What the run sees of its session's messages before it."""
    input: Messages
    failures: dict[str, int]
    """How often the provider of a turn has failed in the middle, by turn key."""
    poison: int
    """Workers that died in a row over this run, since the last entry of its journal."""
    ran: int
    """Milliseconds of running time that earlier passes used."""
    steers: int
    """How many messages wait that were said to the run."""
    said: int
    """How many were said to it so far."""
    stored: int
    """How many messages earlier passes have added to the session."""


@dataclass(frozen=True, slots=True)
class NotBegun:
    """There is nothing to drive: the job is gone, or not ours."""

    is_late: bool = False
    """The run's time to start is over: it has to be settled as expired."""


async def begin(
    link: Link, keys: Keys, claim: Claim, *, run: tuple[str, str], reason: str = ""
) -> Begun | NotBegun:
    """Take the run, void what its open turns had shown, and return what stands.

    Args:
        link: The way to the server.
        keys: The names.
        claim: The claim of the run's job.
        run: Tenant and id.
        reason: Why a pass follows another one of the same claim.

    Raises:
        InvalidInput: When what is stored of the run cannot be read, now or ever.
    """
    # Done twice, because its reply was lost, it begins the same pass anew.
    reply: list[Any] = await insist(
        link,
        "begin",
        keys=[keys.run(*run).record],
        arguments=[
            claim.queue,
            claim.job_id,
            claim.token,
            claim.worker_id,
            keys.owner(claim.worker_id),
            claim.lapses,
            reason,
        ],
    )
    if reply[0] != 1:
        return NotBegun(is_late=reply[0] == -2)
    try:
        return _begun(reply)
    except ValueError as error:
        raise InvalidInput(f"what the run was made with cannot be read: {error}") from error


def _begun(reply: list[Any]) -> Begun:
    _, epoch, record, journal, calls, yields, handed, input_, prefix, steers, stored = reply[:11]
    kept, marks, marker = reply[11:]
    fields = pairs(record)
    return Begun(
        epoch=epoch,
        run=decode_run(fields),
        journal=Journal(pairs(journal)),
        calls=_ledger(pairs(calls)),
        published=_published(yields),
        handed=[key.decode() for key in handed],
        window=SessionWindow(
            first=kept,
            marks=marks,
            marker=orjson.loads(marker) if marker else None,
            messages=read_messages(prefix),
        ),
        input=Messages(Message.from_raw(message) for message in orjson.loads(input_)),
        failures={
            name.removeprefix("failed:"): int(count)
            for name, count in fields.items()
            if name.startswith("failed:")
        },
        poison=int(fields["poison"]),
        ran=int(fields["ran"]),
        steers=steers,
        said=int(fields.get("said", 0)),
        stored=stored,
    )


def _ledger(fields: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    calls: dict[str, dict[str, bytes]] = {}
    for field, value in fields.items():
        key, _, name = field.rpartition("|")
        calls.setdefault(key, {})[name] = value
    return calls


def _published(yields: list[bytes]) -> Counter[bytes]:
    published: Counter[bytes] = Counter()
    for entry in yields:
        packed = entry.partition(b":")[2]
        published.update(packed[at + 2 : at + _DIGEST] for at in range(0, len(packed), _DIGEST))
    return published
