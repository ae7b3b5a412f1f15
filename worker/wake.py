"""Sleeping until there may be work: a blocking read of the wake lists."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from redis.asyncio import Redis

from .keys import QueueKeys

LONGEST = timedelta(seconds=1)
"""The longest sleep, so that what was enqueued without a wake token is found within a second."""

SHORTEST = timedelta(milliseconds=10)
"""The shortest: 0 would mean for ever."""


async def sleep_until_woken(
    client: Redis, queues: Sequence[QueueKeys], at_most: timedelta | None
) -> str | None:
    """Return the key of the queue whose token came; None after the time, at most a second.

    The client's pool keeps a connection for it: nobody else waits behind the read.

    Raises:
        redis.exceptions.RedisError: When the server is away.
    """
    pause = min(LONGEST, LONGEST if at_most is None else max(SHORTEST, at_most))
    lists = {queue.wake.encode(): queue.queue for queue in queues}
    send = cast(Any, client).execute_command
    popped: list[bytes] | None = await send("BLPOP", *lists, pause.total_seconds())
    return None if popped is None else lists[popped[0]]
