"""The queue as its users see it: put a job on it, take one off, and a job's claim."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final
from uuid import uuid4

from .keys import Keys
from .link import Link
from .payloads import JSON, encode_job
from .slots import Slot, lone_slot

POISON: Final = 3
"""After how many workers that died in a row over a job nobody tries it again."""


class Stop(StrEnum):
    """Why a worker cancels a job's task."""

    LOST = "lost"
    """Another worker has the job: nothing that this one writes has any effect."""
    ABORTED = "aborted"
    """Somebody asked, through `arq:abort`, that the job be stopped."""
    DRAINED = "drained"
    """The worker shuts down and the job's time to finish is over."""
    STALLED = "stalled"
    """The event loop stood still for so long that another worker has the job."""
    SHUT = "shut"
    """The worker was told a second time to stop."""


class Released:
    """The type of `RELEASED`."""


RELEASED: Final = Released()
"""What a job function returns that has released its claim by a script of its own."""


@dataclass(slots=True, eq=False)
class Claim:
    """A worker's right to a job. Every script that changes the job asks for its token."""

    job_id: str
    queue: str
    """The queue's key in Redis."""
    token: str
    lapses: int
    """How many claims of the job lapsed and were taken over, since it last got on."""
    taken_over: bool
    """Whether this claim was taken from a worker that did not renew it."""
    worker_id: str
    stop: Stop | None = None
    """Why the job's task is cancelled; set before it is."""
    slot: Slot = field(default_factory=lone_slot)
    released: bool = False
    """Set by a job function before it sends a script that gives the claim up (and set back if the
    script refuses): a claim that is being given up is neither renewed nor ever found lost."""
    renew_until: float = math.inf
    """By `time.monotonic()`: from then on the claim is not renewed, whatever the job still does."""


class QueueClient:
    """Puts jobs on queues."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    async def enqueue(
        self,
        queue: str,
        function: str,
        arguments: Sequence[JSON] = (),
        *,
        job_id: str | None = None,
        delay: timedelta = timedelta(0),
    ) -> str | None:
        """Put a job on the queue and return its id, or None when the id is taken.

        When the reply is lost, asking again with the same `job_id` never makes a second job.

        Raises:
            redis.exceptions.ConnectionError: When it is unknown whether the job was enqueued.
        """
        job_id = job_id or f"{self._keys.namespace}/{uuid4().hex}"
        payload = encode_job(function, arguments, enqueued=int(time.time() * 1000))
        enqueued = await self._link.run(
            "enqueue",
            [self._keys.queue(queue).queue, self._keys.queues],
            [job_id, payload, _ms(delay), queue],
        )
        return job_id if enqueued else None

    async def depth(self, queue: str) -> int:
        """Return how many jobs the queue has, those that somebody works on included."""
        return int(await self._link.command("ZCARD", self._keys.queue(queue).queue))

    async def remove(self, queue: str, job_id: str) -> bool:
        """Take a job off its queue, and say whether it was there and nobody works on it."""
        return bool(await self._link.run("remove", [self._keys.queue(queue).queue], [job_id]))


def _ms(delay: timedelta) -> int:
    return int(delay / timedelta(milliseconds=1))
