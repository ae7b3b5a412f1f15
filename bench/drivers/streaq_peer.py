"""streaq."""

import sys
from typing import Any

from streaq import Worker

from . import client, tally

worker: Any = Worker(
    redis_url=client.url(),
    concurrency=100,
    redis_kwargs={"max_connections": 400},
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(ttl=0, silent=True)
async def drained() -> None:
    await tally.work()


@worker.task(silent=True)
async def answer() -> int:
    return 1


class Streaq:
    async def open(self) -> None:
        await worker.__aenter__()

    async def _enqueue(self) -> None:
        await drained.enqueue()

    async def enqueue(self, count: int) -> None:
        await client.batches(count, self._enqueue)

    async def call(self) -> Any:
        task = await answer.enqueue()
        return (await task.result()).result

    async def fan(self, width: int) -> None:
        await client.side_by_side(width, self.call)

    async def close(self) -> None:
        await worker.__aexit__(None, None, None)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker.run_sync()
    else:
        client.run(client.serve(Streaq()))
