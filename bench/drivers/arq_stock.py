"""arq as it is published."""

import os
import sys
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker, func

from . import client, tally

POLL = float(os.environ.get("BENCH_POLL", "0.5"))
SERVER = RedisSettings.from_dsn(client.url())


async def drained(_: dict[str, Any]) -> None:
    await tally.work()


async def answer(_: dict[str, Any]) -> int:
    return 1


class Arq:
    pool: ArqRedis

    async def open(self) -> None:
        self.pool = await create_pool(SERVER)

    async def enqueue(self, count: int) -> None:
        await client.batches(count, lambda: self.pool.enqueue_job("drained"))

    async def call(self) -> Any:
        job = await self.pool.enqueue_job("answer")
        return await job.result(poll_delay=POLL) if job else None

    async def fan(self, width: int) -> None:
        await client.side_by_side(width, self.call)

    async def close(self) -> None:
        await self.pool.aclose(close_connection_pool=True)


async def work() -> None:
    functions = [func(drained, keep_result=0), func(answer, keep_result=60)]
    worker = Worker(functions, redis_settings=SERVER, max_jobs=100, poll_delay=POLL)
    await worker.main()


if __name__ == "__main__":
    client.run(work() if sys.argv[1] == "worker" else client.serve(Arq()))
