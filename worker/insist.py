"""Send a script until the server has answered: for what a job has to write, whatever comes between.

The script has to bear being done twice, since a reply may be lost. Whoever waits is cancelled when
the claim is lost, so this ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from .link import Link
from .wire import Part, Reply

BACKOFF = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between tries while the server is away; the last one is repeated."""

# redis-py takes the code off the text of those errors that it has a class for.
_PASSING_CLASSES = (OutOfMemoryError, ReadOnlyError)
_PASSING = (
    *("OOM", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "UNKILLABLE"),
    *("MISCONF", "CLUSTERDOWN"),
)


def is_passing(error: RedisError) -> bool:
    """Say whether the same command may succeed later: the server is away, or refuses for now."""
    if not isinstance(error, ResponseError) or isinstance(error, _PASSING_CLASSES):
        return True
    return str(error).startswith(_PASSING)


def pause(tries: int) -> float:
    """Return how many seconds to wait after this many tries."""
    return BACKOFF[min(tries, len(BACKOFF)) - 1]


async def insist(
    link: Link, script: str, *, keys: Sequence[Part], arguments: Sequence[Part]
) -> Reply:
    """Return the script's reply, however long the server is away.

    Raises:
        ResponseError: When the server refuses the script for good.
    """
    tries = 0
    while True:
        try:
            return await link.run(script, keys, arguments)
        except RedisError as error:
            if not is_passing(error):
                raise
        tries += 1
        await asyncio.sleep(pause(tries))
