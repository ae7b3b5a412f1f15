"""arq's worker with a lease, a wake-up and a claim of one round trip.

    claim → begin → (the job's function) → judge → report
            renewals, from a thread of their own, all the while

The claim's token is what counts: a job whose token is another's may still run here for a while,
but nothing that it writes has any effect. No failure of the server ends the process.
"""

import asyncio
import json
import logging
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import uuid4

from arq.connections import ArqRedis
from arq.worker import Worker
from redis.exceptions import RedisError

from loops.guard import Raised
from loops.tasks import Owner, in_thread

from .claimer import Claimer
from .claiming import Asker, Claimed
from .draining import Draining
from .functions import Work
from .hand import Hand
from .job import Job
from .keys import Keys
from .lifecycle import Lifecycle
from .link import Link
from .payloads import dumps, loads
from .queue import Claim, Stop
from .renewal import Caller, Registration, Renewal, Report, script_caller
from .settings import Settings
from .slots import Slots
from .standing import Standing

logger = logging.getLogger(__name__)

RUNS = "runs"
"""What the names of queues for runs begin with."""

RENEW_AT = 0.3
"""After which part of a lease it is renewed: soon enough that the third that counts as silence
is never over between two renewals."""

LEAVE_WITHIN = 3.0
"""Seconds that the last renewal may take, when the worker leaves."""

CRON_EVERY = 0.5
"""Seconds between two looks at the calendar."""


class QueueWorker(Worker):
    """One worker: some queues, some slots. Made and run in an event loop, by `await main()`."""

    def __init__(
        self,
        link: Link,
        keys: Keys,
        settings: Settings,
        work: Work,
        *,
        call: Caller | None = None,
    ) -> None:
        """Own nothing of what is given: the link stays its opener's.

        `call` is how the renewing thread reaches the server; by itself it takes `link.blocking`.
        """
        first = keys.queue(work.queues[0]).queue
        super().__init__(
            work.functions,
            queue_name=first,
            cron_jobs=work.cron_jobs,
            redis_pool=_arq_redis(link, first),
            handle_signals=False,
            max_jobs=work.concurrency,
            job_timeout=settings.tool_timeout,
            ctx=work.ctx,
        )
        self.worker_id = uuid4().hex
        self.lifecycle = Lifecycle()
        self._link, self._keys, self._settings, self._work = link, keys, settings, work
        self._owner, self._job_owner = Owner(), Owner()
        self._started = datetime.now(UTC)
        self._standing = Standing(settings.lease)
        self._hand = self._make_hand()
        self._renewal = self._make_renewal(call or _thread_caller(link))
        self._claimer = self._make_claimer()
        self._hand.slots.on_free = self._claimer.make_use
        self._draining = Draining(self._hand, self._claimer, self.lifecycle)

    def stop(self) -> None:
        """Shut down: claim nothing more, let jobs finish for a while. A second call hurries."""
        self._draining.ask()

    async def main(self) -> None:
        """Work until stopped; what happens to jobs then is told in `Settings.drain`.

        Raises:
            Exception: What `on_startup` raised; or a fault of the worker itself, which ends it.
        """
        self.ctx |= {"redis": self.pool, "lifecycle": self.lifecycle}
        if self._work.on_startup:
            await self._work.on_startup(self.ctx)
        logger.info("→ worker %s serves %s", self.worker_id, ", ".join(self._work.queues))
        renewing = self._start_renewal()
        try:
            await self._until_stopped(renewing)
            await self._draining.drain(self._drain_limit)
        finally:
            self.stop()
            await self._draining.shut(Stop.SHUT)
            await self._leave(renewing)
            if self._work.on_shutdown:
                await self._work.on_shutdown(self.ctx)

    def __repr__(self) -> str:
        return f"<QueueWorker {self.worker_id}: {self._registration().health}>"

    async def close(self) -> None:
        """Do nothing: `main` closes what it opened."""

    async def heart_beat(self) -> None:
        """Enqueue what the calendar asks for; health is told by the renewals."""
        await self.run_cron(datetime.now(tz=self.timezone), CRON_EVERY)

    async def _until_stopped(self, renewing: asyncio.Task[object]) -> None:
        watched: list[asyncio.Task[Any]] = [
            renewing,
            self._owner.start(self.lifecycle.drained(), name="worker"),
            self._owner.start(self._claimer.look(), name="worker looks for jobs"),
        ]
        if self.cron_jobs:
            watched.append(self._owner.start(self._keep_calendar(), name="worker's calendar"))
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if isinstance(fault := task.result(), Raised):
                raise fault.error

    async def _keep_calendar(self) -> None:
        while True:
            try:
                await self.heart_beat()
            except RedisError as error:
                logger.warning("! the calendar could not be kept: %s", error)
            await asyncio.sleep(CRON_EVERY)

    def _start_renewal(self) -> asyncio.Task[object]:
        loop = asyncio.get_running_loop()

        def tell(report: Report) -> None:
            # A report to a loop that is closed reaches nobody, and nobody misses it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._hear, report)

        self._tick()
        thread = in_thread(partial(self._renewal.run, tell), name="renewal")
        return self._owner.start(thread, name="renewal")

    def _tick(self) -> None:
        self._renewal.tick()
        pause = min(1.0, self._settings.stall.total_seconds() / 4)
        self._ticking = asyncio.get_running_loop().call_later(pause, self._tick)

    def _hear(self, report: Report) -> None:
        if not report.answered:
            self._standing.failed()
            return
        self._standing.renewed()
        self._hand.obey(report)
        self._claimer.soon()

    def _begin(self, claimed: Claimed) -> None:
        for job_id in claimed.missing:
            logger.error("! job %s had no payload any more, and is gone", job_id)
        for job in claimed.jobs:
            if claimed.is_late or self.lifecycle.draining:
                self._hand.return_unbegun(job)
            else:
                self._hand.begin(job)
        self._hand.changed.set()

    def _drain_limit(self, job: Job) -> timedelta:
        is_run = job.claimed.queue.partition(":")[0] == RUNS
        return self._settings.drain if is_run else self._settings.tool_drain

    async def _leave(self, renewing: asyncio.Task[object]) -> None:
        self._ticking.cancel()
        self._renewal.stop()
        await asyncio.wait([renewing], timeout=LEAVE_WITHIN)
        try:
            await self._link.command("DEL", self._keys.worker(self.worker_id))
            for workers in map(self._keys.workers, self._work.queues):
                await self._link.command("ZREM", workers, self.worker_id)
        except RedisError:
            logger.info("the server is away: it forgets the worker by itself")
        finally:
            await self._owner.close()

    def _make_hand(self) -> Hand:
        return Hand(
            link=self._link,
            functions=self.functions,
            ctx=cast(Any, self).ctx,
            slots=Slots(self._work.concurrency),
            owner=self._job_owner,
            job_timeout=self.job_timeout_s or 0.0,
            max_tries=self.max_tries,
            on_dead=self._work.on_dead,
        )

    def _make_claimer(self) -> Claimer:
        return Claimer(
            link=self._link,
            keys=self._keys,
            asker=Asker(self._keys, self.worker_id, self._settings.lease),
            slots=self._hand.slots,
            standing=self._standing,
            queues=self._work.queues,
            own=self._hand.own,
            begin=self._begin,
            renew_first=self._renewal.ask,
        )

    def _make_renewal(self, call: Caller) -> Renewal:
        return Renewal(
            call,
            every=self._settings.lease * RENEW_AT,
            stall=self._settings.stall,
            claims=self._claims,
            worker=self._registration,
        )

    def _claims(self) -> list[Claim]:
        # Called by the renewing thread: a copy of a dict is made in one step.
        return [job.claim for job in self._hand.jobs.copy().values()]

    def _registration(self) -> Registration:
        counts, slots = self._hand.counts, self._hand.slots
        record = {
            "id": self.worker_id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": self._work.queues,
            "slots": slots.total,
            "jobs": slots.present,
            "waiting": slots.waiting,
            "draining": self.lifecycle.draining,
            "started": self._started.isoformat(),
            **counts,
        }
        health = (
            f"j_complete={counts['complete']} j_failed={counts['failed']} "
            f"j_retried={counts['retried']} j_ongoing={slots.present}"
        )
        return Registration(
            self._keys,
            self.worker_id,
            self._work.queues,
            self._settings.lease,
            json.dumps(record),
            health,
        )


def _arq_redis(link: Link, queue: str) -> ArqRedis:
    return ArqRedis(
        pool_or_conn=cast(Any, link.client.connection_pool),
        job_serializer=dumps,
        job_deserializer=loads,
        default_queue_name=queue,
    )


def _thread_caller(link: Link) -> Caller:
    if link.blocking is None:
        raise ValueError("the worker needs a client for a thread: open the link with `blocking`")
    return script_caller(link.blocking)
