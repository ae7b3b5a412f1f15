"""A job that a worker has in hand, from its claim until the server knows what became of it."""

import asyncio
import time
from dataclasses import dataclass, field

from arq.jobs import serialize_result

from .claiming import ClaimedJob
from .payloads import JSON, dumps
from .queue import Claim, Stop

KEEP_RESULT = 3600.0
"""Seconds for which the result of a job is kept whose function does not say."""


def now_ms() -> int:
    """Return the time, in ms since the epoch."""
    return int(time.time() * 1000)


@dataclass(slots=True, eq=False)
class Job:
    """One job in hand."""

    claimed: ClaimedJob
    started: int = field(default_factory=now_ms)
    function: str = "<unknown>"
    arguments: list[JSON] = field(default_factory=list[JSON])
    named: dict[str, JSON] = field(default_factory=dict[str, JSON])
    enqueued: int = 0
    tries: int = 1
    settles_itself: bool = False
    keep_result: float = KEEP_RESULT
    task: asyncio.Task[object] | None = None
    timer: asyncio.TimerHandle | None = None
    timed_out: bool = False
    is_cancelled: bool = False
    is_settled: bool = False
    """Whether its verdict is on the way."""

    @property
    def claim(self) -> Claim:
        """The claim that the job runs under."""
        return self.claimed.claim

    def cancel(self, stop: Stop) -> bool:
        """Cancel the task once, and say whether that was news to it.

        A function that was begun with `Stop.ABORTED` knows of it, and is not cancelled for that.
        """
        if self.task is None or self.task.done() or self.is_cancelled or self.claim.stop is stop:
            return False
        self.claim.stop = stop
        self.is_cancelled = True
        return self.task.cancel()

    def time_out(self) -> None:
        """Cancel the task because its time is over."""
        if self.task is not None and not self.task.done():
            self.timed_out = True
            self.task.cancel()

    def encode_result(self, value: object, *, is_success: bool) -> bytes:
        """Return the bytes of the result as arq's tools read it; empty if it is not kept."""
        if not self.keep_result:
            return b""
        encoded = serialize_result(
            self.function,
            tuple(self.arguments),
            self.named,
            self.tries,
            self.enqueued,
            is_success,
            value,
            self.started,
            now_ms(),
            f"{self.claim.job_id}:{self.function}",
            self.claim.queue,
            self.claim.job_id,
            serializer=dumps,
        )
        return encoded or b""
