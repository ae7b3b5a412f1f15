"""Workers for tests: made of a few coroutine functions, with short leases, run in this process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from loops.tasks import Owner
from worker.arq_worker import QueueWorker
from worker.functions import Work
from worker.keys import Keys
from worker.link import Link
from worker.renewal import Caller
from worker.settings import Settings

KEYS = Keys("t")
LEASE = timedelta(seconds=1)


def settings(**changes: Any) -> Settings:
    """Return settings with a short lease, which end a worker at once."""
    short = {"lease": LEASE, "drain": timedelta(0), "tool_drain": timedelta(0)}
    return Settings.model_validate(short | changes)


def make_worker(
    link: Link,
    functions: Sequence[Any],
    *queues: str,
    call: Caller | None = None,
    told: Settings | None = None,
    **work: Any,
) -> QueueWorker:
    """Return a worker of the namespace of tests; its queue is `tools` if none is named."""
    served = Work(functions, queues or ("tools",), **work)
    return QueueWorker(link, KEYS, told or settings(), served, call=call)


@asynccontextmanager
async def running(*workers: QueueWorker) -> AsyncIterator[None]:
    """Run the workers; at the end all of them have left."""
    owner = Owner()
    tasks = [owner.start(worker.main(), name="worker under test") for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await owner.join()
        for task in tasks:
            if not task.cancelled():
                task.result()
