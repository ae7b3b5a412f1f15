"""The jobs that a worker has in hand: begun, run under guard, judged, reported.

Whatever a job does, and whatever stands in its payload, ends in a verdict; nothing of it reaches
the worker itself.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arq.cron import CronJob
from arq.utils import ms_to_datetime
from arq.worker import Function, JobExecutionFailed

from loops.guard import Raised, describe, outcome_of
from loops.tasks import Owner

from .claiming import ClaimedJob
from .functions import JobFunction, OnDead, Signatures
from .job import KEEP_RESULT, Job
from .link import Link
from .payloads import BadPayload, Payload, decode_job
from .queue import POISON, Released, Stop
from .renewal import Report
from .reporter import Reporter
from .slots import Slots
from .verdict import Ending, Finish, GiveBack, Lapse, NotHere, Verdict, judge

logger = logging.getLogger(__name__)

GRACE = 30.0
"""Seconds past a job's limit after which its claim is not renewed any more."""


@dataclass(slots=True, eq=False)
class Hand:
    """The jobs in hand of one worker."""

    link: Link
    functions: Mapping[str, Function | CronJob]
    ctx: dict[str, Any]
    slots: Slots
    owner: Owner
    job_timeout: float
    max_tries: int
    on_dead: OnDead | None = None
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    """By token; a job stays until the server knows what became of it."""
    own: Counter[str] = field(default_factory=Counter[str])
    """How many claims of each queue there are."""
    counts: Counter[str] = field(default_factory=Counter[str])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last job is gone."""
    _signatures: Signatures = field(default_factory=Signatures)
    _reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        self._reporter = Reporter(self.link, on_known=self.known, on_unknown_for_too_long=self.bury)

    def begin(self, claimed: ClaimedJob) -> None:
        """Start a claimed job's task."""
        job = Job(claimed)
        self._take(job)
        self._start(job, partial(self._work, job))

    def return_unbegun(self, claimed: ClaimedJob) -> None:
        """Give a claimed job back without having begun it."""
        job = Job(claimed)
        self._take(job)
        self._settle(job, GiveBack(keeps_place=True))

    def obey(self, report: Report) -> None:
        """Cancel the jobs that a renewal found lost or unwanted."""
        lost = Stop.STALLED if report.after_stall else Stop.LOST
        for token, stop in [
            *((token, lost) for token in report.lost),
            *((token, Stop.ABORTED) for token in report.aborted),
        ]:
            job = self.jobs.get(token)
            if job is not None and not job.claim.released and job.cancel(stop):
                logger.warning("! job %s is stopped: %s", job.claim.job_id, stop)

    def known(self, job: Job) -> None:
        """Forget a job of which the server knows what became of it."""
        self.jobs.pop(job.claim.token, None)
        if not self.jobs:
            self.changed.set()

    def bury(self, job: Job) -> None:
        """Fail a job whose function no worker has known for too long."""
        job.claim.slot = self.slots.take()
        job.is_settled = False
        error = JobExecutionFailed(f"no worker knows the function {job.function!r}")
        self.own[job.claimed.queue] += 1
        self._start(job, partial(self._dead, job, "unknown_function", error))

    def give_up(self) -> None:
        """Give every job back whose function does not end."""
        for job in list(self.jobs.values()):
            self._settle(job, GiveBack(keeps_place=True))

    def _take(self, job: Job) -> None:
        self.jobs[job.claim.token] = job
        self.own[job.claimed.queue] += 1

    def _start(self, job: Job, work: Callable[[], Awaitable[object]]) -> None:
        job.task = self.owner.start(outcome_of(work), name=job.claim.job_id)
        job.task.add_done_callback(partial(self._ended, job))

    async def _work(self, job: Job) -> object:
        claimed = job.claimed
        try:
            payload = decode_job(claimed.raw)
        except BadPayload as error:
            return await self._dead(job, "bad_payload", error)
        job.function, job.arguments, job.named = payload.function, payload.arguments, payload.named
        job.enqueued, job.tries = payload.enqueued, claimed.tries + payload.first_try - 1
        function = self.functions.get(payload.function)
        if function is None or payload.is_newer:
            return NotHere()
        if not self._signatures.fit(function.coroutine, payload.arguments, payload.named):
            misfit = BadPayload(f"the arguments do not fit the function {payload.function!r}")
            return await self._dead(job, "bad_payload", misfit)
        self._apply(job, function)
        if claimed.is_aborted:
            job.claim.stop = Stop.ABORTED
        if (refused := self._refusal(job, function)) is not None:
            return await self._dead(job, *refused)
        return await function.coroutine(self._context(job, payload), *job.arguments, **job.named)

    def _apply(self, job: Job, function: Function | CronJob) -> None:
        """Set what the function's description says about the job."""
        job.settles_itself = isinstance(function, JobFunction) and function.settles_itself
        kept = function.keep_result_s
        job.keep_result = KEEP_RESULT if kept is None else kept
        if isinstance(function, CronJob):
            # Its id names a point in time: while the result stands, nobody enqueues it again.
            job.keep_result = max(job.keep_result, 60.0)
        if job.settles_itself:
            return
        limit = self.job_timeout if function.timeout_s is None else function.timeout_s
        job.claim.renew_until = time.monotonic() + limit + GRACE
        job.timer = asyncio.get_running_loop().call_later(limit, job.time_out)

    def _refusal(self, job: Job, function: Function | CronJob) -> tuple[str, Exception] | None:
        """Say why a job is not begun.

        A job that settles itself is given up by its own script, which knows whether it got on; the
        worker does so only when that script has failed again and again.
        """
        if job.claim.stop is Stop.ABORTED and not job.settles_itself:
            raise asyncio.CancelledError
        if job.claim.lapses >= (2 * POISON + 1 if job.settles_itself else POISON):
            text = f"{job.claim.lapses} workers were lost with the job"
            return "worker_lost", JobExecutionFailed(text)
        if job.settles_itself:
            return None
        most = self.max_tries if function.max_tries is None else function.max_tries
        if job.tries > most:
            return "max_tries", JobExecutionFailed(f"the job was tried {most} times")
        return None

    async def _dead(self, job: Job, reason: str, error: Exception) -> object:
        logger.error("! job %s will not run: %s: %s", job.claim.job_id, reason, error)
        if self.on_dead is not None:
            # Until it has said so, an error of its own must not end the job.
            job.settles_itself = True
            answer = await self.on_dead(self._context(job, None), job.claim, reason)
            if isinstance(answer, Released):
                return answer
            job.settles_itself = False
        raise error

    def _context(self, job: Job, payload: Payload | None) -> dict[str, Any]:
        return self.ctx | {
            "job_id": job.claim.job_id,
            "job_try": job.tries,
            "enqueue_time": ms_to_datetime(payload.enqueued if payload else 0),
            "score": job.claimed.due,
            "claim": job.claim,
        }

    def _ended(self, job: Job, task: asyncio.Task[object]) -> None:
        claim = job.claim
        if job.timer is not None:
            job.timer.cancel()
        outcome = _outcome(task)
        if task.cancelled() and claim.stop is None and not job.timed_out:
            # Somebody cancels the whole worker.
            claim.stop = Stop.SHUT
        ending = Ending(outcome, claim.stop, claim.released, job.settles_itself, job.timed_out)
        self._settle(job, judge(ending))

    def _settle(self, job: Job, verdict: Verdict) -> None:
        if job.is_settled:
            return
        job.is_settled = True
        self._note(job, verdict)
        self.own[job.claimed.queue] -= 1
        # First the slot: the claim that it makes room for leaves with the report.
        self.slots.leave(job.claim.slot)
        self._reporter.report(job, verdict)

    def _note(self, job: Job, verdict: Verdict) -> None:
        match verdict:
            case Finish(value, is_success=False) if isinstance(value, BaseException):
                self.counts["failed"] += 1
                logger.warning("! job %s failed: %s", job.claim.job_id, describe(value))
            case Lapse(error):
                self.counts["failed"] += 1
                logger.error("! job %s is left to others", job.claim.job_id, exc_info=error)
            case GiveBack():
                self.counts["retried"] += 1
            case _:
                self.counts["complete"] += 1


def _outcome(task: asyncio.Task[object]) -> object:
    if task.cancelled():
        return Raised(asyncio.CancelledError())
    error = task.exception()
    return task.result() if error is None else Raised(error)
