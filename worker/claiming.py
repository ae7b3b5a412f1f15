"""Asking for jobs: what one claim asks for, and what its reply says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .keys import Keys
from .queue import Claim
from .slots import Slots
from .wire import Part

BATCH = ":batch"
"""What the names of queues for background work end with."""

BATCH_KEEPS_FREE = 0.2
"""The share of slots that background work never takes."""

BATCH_TURN = 5
"""One claim in so many asks the background queues first, so that they always get their share."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One claim's wishes."""

    queues: tuple[str, ...]
    """Names, in the order in which they are asked."""
    limits: tuple[int, ...]
    """The most that each may give."""
    free: int


def plan_ask(queues: Sequence[str], slots: Slots, own: dict[str, int], *, turn: int) -> Ask:
    """Decide what to ask for.

    Args:
        queues: The worker's queues, the most urgent first.
        slots: Its slots.
        own: How many jobs of each queue it has.
        turn: The ordinal of the claim.
    """
    first = turn % BATCH_TURN == 0
    ordered = sorted(queues, key=is_batch, reverse=True) if first else list(queues)
    free = slots.open
    batch = sum(count for queue, count in own.items() if is_batch(queue))
    room = max(0, min(free, slots.total - _kept_free(slots.total) - batch))
    limits = tuple(room if is_batch(queue) else free for queue in ordered)
    return Ask(tuple(ordered), limits, free)


def is_batch(queue: str) -> bool:
    """Whether the queue is for background work."""
    return queue.endswith(BATCH)


def _kept_free(total: int) -> int:
    return math.ceil(total * BATCH_KEEPS_FREE) if total > 1 else 0


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that was claimed, not yet begun."""

    claim: Claim
    queue: str
    """The queue's name."""
    raw: bytes
    is_aborted: bool
    tries: int
    due: int
    """When it was due, in ms."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim brought."""

    jobs: list[ClaimedJob]
    missing: list[str]
    """Ids that had no payload any more; they are gone from the queue."""
    left: int
    """How many more are due, for other workers or a later claim."""
    next_in: timedelta | None
    """When the next job may be due or lapse."""
    is_late: bool
    """Whether the reply took so long that the claims may be over: nothing of it may be begun."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the claim script."""

    keys: list[Part]
    arguments: list[Part]
    first: int
    """The numbers of the tokens that it may give out."""
    last: int


class Asker:
    """Speaks the claim script for one worker."""

    def __init__(self, keys: Keys, worker_id: str, lease: timedelta) -> None:
        self._keys = keys
        self._worker_id = worker_id
        self._lease = int(lease / timedelta(milliseconds=1))
        self._number = 0

    def request(self, ask: Ask, own: dict[str, int], *, take_over: bool) -> Request:
        """Return the script's call for one claim. The numbers of tokens are never reused."""
        keys: list[Part] = []
        pairs: list[Part] = []
        for queue, limit in zip(ask.queues, ask.limits, strict=True):
            keys += [self._keys.queue(queue).queue, self._keys.workers(queue)]
            pairs += [own.get(queue, 0), limit]
        first, self._number = self._number + 1, self._number + ask.free
        fixed: list[Part] = [self._worker_id, self._lease, first, ask.free, int(take_over)]
        return Request(keys, [*fixed, *pairs], first, self._number)

    def disown(self, request: Request) -> tuple[list[Part], list[Part]]:
        """Return the call that gives back what a claim took whose reply was lost."""
        return request.keys[::2], [self._worker_id, request.first, request.last]

    def read(self, ask: Ask, reply: Any, slots: Slots, *, is_late: bool) -> Claimed:
        """Read the script's reply; each claimed job gets a slot."""
        jobs, missing, left, later = reply
        return Claimed(
            [self._job(ask, slots, *job) for job in jobs],
            [job_id.decode() for job_id in missing],
            left,
            None if later < 0 else timedelta(milliseconds=later),
            is_late,
        )

    def _job(self, ask: Ask, slots: Slots, at: int, *told: Any) -> ClaimedJob:
        job_id, raw, token, lapses, taken_over, aborted, tries, due = told
        queue = ask.queues[at - 1]
        claim = Claim(
            job_id=job_id.decode(),
            queue=self._keys.queue(queue).queue,
            token=token.decode(),
            lapses=lapses,
            taken_over=bool(taken_over),
            worker_id=self._worker_id,
            slot=slots.take(),
        )
        return ClaimedJob(claim, queue, raw, bool(aborted), tries, int(float(due)))
