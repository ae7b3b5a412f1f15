"""SAQ."""

import sys
from typing import Any

from saq import Queue, Worker

from . import client, tally

PATIENCE = 1.0
NOT_KEPT = -1


async def drained(_: Any) -> None:
    await tally.work()


async def answer(_: Any) -> int:
    return 1


class Saq:
    def open(self) -> None:
        self.queue = Queue.from_url(client.url())

    async def enqueue(self, count: int) -> None:
        await client.batches(count, lambda: self.queue.enqueue("drained", ttl=NOT_KEPT))

    async def call(self) -> Any:
        """Wait for the word that SAQ publishes; quicker than `apply`, which only polls."""
        job = await self.queue.enqueue("answer")
        while job is not None and not job.completed:
            try:
                await job.refresh(until_complete=PATIENCE)
            except TimeoutError:
                continue  # it came between the look and the wait
        return job

    async def fan(self, width: int) -> None:
        await client.side_by_side(width, self.call)

    async def close(self) -> None:
        await self.queue.disconnect()


async def work() -> None:
    queue = Queue.from_url(client.url())
    await queue.connect()
    await Worker(queue, [drained, answer], concurrency=100).start()


if __name__ == "__main__":
    client.run(work() if sys.argv[1] == "worker" else client.serve(Saq()))
