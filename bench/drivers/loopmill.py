"""Loopmill itself: the worker class that ships, with one function that does nothing.

The drain is of plain jobs. A call is what a loop does: on a worker for runs, a loop starts a tool
call, whose job another worker performs; the result comes back to the loop. So the time of a call
has the ledger, the journal and the log of a durable run in it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import timedelta
from typing import Any

import orjson

from bench.following import events_of
from worker.arq_worker import QueueWorker
from worker.event_loop import run
from worker.functions import Work, job_function
from worker.keys import Keys
from worker.link import Link, open_link
from worker.new_run import NewRun
from worker.resources import Resources, resources_over
from worker.settings import Settings

from . import client, tally

QUEUE = "bench"
TENANT = "default"


async def drained(_: dict[str, Any]) -> None:
    await tally.work()


def _settings() -> Settings:
    return Settings.from_env({"LOOPMILL_REDIS_URL": client.url()})


class Loopmill:
    """The client: a link, which all that it does shares."""

    link: Link
    resources: Resources

    async def open(self) -> None:
        self._opened = open_link(client.url())
        self.link = await self._opened.__aenter__()
        self.resources = resources_over(self.link, _settings())

    async def enqueue(self, count: int) -> None:
        queue = self.resources.queue
        await client.batches(count, lambda: queue.enqueue(QUEUE, "drained"))

    async def in_loop(self, count: int, width: int) -> dict[str, Any]:
        """Let a loop call a tool, `width` calls at a time, and return how long each time took."""
        asked = {"count": count, "width": width, "gap": client.GAP}
        message = {"role": "user", "content": orjson.dumps(asked).decode()}
        made = await self.resources.runs.create(TENANT, NewRun("caller", [message]))
        events = await events_of(self.resources, TENANT, made.run_id)
        took = next(event for event in events if event.type == "custom.took")
        return {"ms": took.data["value"]["ms"]}

    async def ping(self, count: int) -> dict[str, Any]:
        """Return how long redis-py's asyncio client takes for a PING, with the same pauses."""

        async def one() -> None:
            await self.link.client.ping()

        return {"ms": await client.timed(one, count)}

    async def call(self) -> None:
        raise NotImplementedError("a call is a loop's: ask for `in_loop`")

    async def fan(self, width: int) -> None:
        raise NotImplementedError(f"{width} calls are a loop's: ask for `in_loop`")

    async def close(self) -> None:
        await self._opened.__aexit__(None, None, None)


async def work() -> int:
    """Serve the queue as `loopmill worker` serves its own: same class, settings and leases."""
    async with open_link(client.url()) as link:
        functions = [job_function(drained, keep_result=timedelta(0))]
        worker = QueueWorker(link, Keys("loopmill"), _settings(), Work(functions, (QUEUE,), 100))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.main()
    return 0


async def serve() -> int:
    await client.serve(Loopmill())
    return 0


if __name__ == "__main__":
    sys.exit(run(work() if sys.argv[1] == "worker" else serve()))
