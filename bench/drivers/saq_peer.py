"""SAQ."""

import sys
from typing import Any

from saq import Queue, Worker

from . import client, tally

LOOK_EACH = 0.005
NOT_KEPT = -1


async def drained(ctx: Any) -> None:
    await tally.work()


async def answer(ctx: Any) -> int:
    return 1


class Saq:
    def open(self) -> None:
        self.queue = Queue.from_url(client.url())

    async def enqueue(self, count: int) -> None:
        await client.batches(count, lambda: self.queue.enqueue("drained", ttl=NOT_KEPT))

    async def call(self) -> Any:
        return await self.queue.apply("answer", poll_interval=LOOK_EACH)

    async def fan(self, width: int) -> Any:
        return await self.queue.map("answer", [{}] * width, poll_interval=LOOK_EACH)

    async def pushed(self) -> Any:
        job = await self.queue.enqueue("answer")
        if job is not None:
            await job.refresh(until_complete=1)
        return job

    async def close(self) -> None:
        await self.queue.disconnect()


async def work() -> None:
    queue = Queue.from_url(client.url())
    await queue.connect()
    await Worker(queue, [drained, answer], concurrency=100).start()


if __name__ == "__main__":
    client.run(work() if sys.argv[1] == "worker" else client.serve(Saq()))
