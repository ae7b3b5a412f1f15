"""Telling the server what became of a job, until it has answered.

A verdict whose reply was lost is sent again: all scripts ask for the token, so that a second time
changes nothing. A claim that is no longer ours is logged once, and nothing else happens.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from .insist import is_passing, pause
from .job import Job
from .link import Link
from .verdict import LAPSE, Finish, GiveBack, Lapse, Nothing, Verdict
from .wire import Part, Reply

logger = logging.getLogger(__name__)

REFUSALS = 20
"""How often the server may refuse a verdict for good, before the claim is left to lapse."""


@dataclass(frozen=True, slots=True)
class _Message:
    job: Job
    script: str
    arguments: tuple[Part, ...]
    then: Callable[[int], None]


class Reporter:
    """Sends the verdicts of one worker."""

    def __init__(
        self,
        link: Link,
        *,
        on_known: Callable[[Job], None],
        on_unknown_for_too_long: Callable[[Job], None],
        refusals: int = REFUSALS,
    ) -> None:
        self._link = link
        self._refusals = refusals
        self._loop = asyncio.get_running_loop()
        self._on_known = on_known
        self._on_too_long = on_unknown_for_too_long

    def report(self, job: Job, verdict: Verdict) -> None:
        """Send the verdict; `on_known` gets the job once the server has answered."""
        match verdict:
            case Nothing():
                self._on_known(job)
            case Finish():
                result = job.encode_result(verdict.value, is_success=verdict.is_success)
                self._tell(job, "finish", result, max(1, int(job.keep_result * 1000)))
            case Lapse():
                self._tell(job, "lapse", _ms(LAPSE))
            case GiveBack():
                due = job.claimed.due if verdict.keeps_place else ""
                counted = int(verdict.is_counted)
                delay, patience = _ms(verdict.delay), _ms(verdict.patience)
                self._tell(job, "retry", delay, due, counted, patience)

    def _tell(self, job: Job, script: str, *rest: Part) -> None:
        arguments = (job.claim.job_id, job.claim.token, *rest)
        self._send(_Message(job, script, arguments, partial(self._answered, job)), 0)

    def _send(self, message: _Message, attempt: int) -> None:
        queue = message.job.claim.queue
        try:
            reply = self._link.send_script(message.script, [queue], message.arguments)
        except RedisConnectionError:
            # The link is closed: the claim will lapse, and whoever takes it goes on.
            self._on_known(message.job)
            return
        reply.add_done_callback(partial(self._replied, message, attempt))

    def _replied(self, message: _Message, attempt: int, reply: asyncio.Future[Reply]) -> None:
        error = None if reply.cancelled() else reply.exception()
        if error is None and not reply.cancelled():
            if reply.result() == 0 and attempt == 0:
                _log_stale(message.job)
            message.then(reply.result())
        elif _may_pass(error) or attempt < self._refusals:
            self._loop.call_later(pause(attempt + 1), self._send, message, attempt + 1)
        else:
            logger.error("! job %s: its end was refused: %s", message.job.claim.job_id, error)
            self._on_known(message.job)

    def _answered(self, job: Job, code: int) -> None:
        if code == TOO_LONG:
            self._on_too_long(job)
        else:
            self._on_known(job)


TOO_LONG = 2
"""What the script answers when a job was given back as unknown for too long."""


def _may_pass(error: BaseException | None) -> bool:
    return isinstance(error, RedisError) and is_passing(error)


def _log_stale(job: Job) -> None:
    logger.warning(
        "! job %s: another worker has it; what this one brought is dropped", job.claim.job_id
    )


def _ms(delay: timedelta) -> int:
    return int(delay / timedelta(milliseconds=1))
