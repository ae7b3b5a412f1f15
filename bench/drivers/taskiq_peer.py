"""taskiq with taskiq-redis: a list, or a stream. Its own command runs the worker."""

import os
import sys
from typing import Any

from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from . import client, tally

LOOK_EACH = 0.005


def _broker() -> Any:
    results: Any = RedisAsyncResultBackend(client.url(), result_ex_time=60)
    if os.environ.get("BENCH_KIND") == "stream":
        stream: Any = RedisStreamBroker(client.url(), consumer_id="0", socket_timeout=None)
        return stream.with_result_backend(results)
    # A read that blocks may take longer than redis-py's limit of 5 seconds.
    return ListQueueBroker(client.url(), socket_timeout=None).with_result_backend(results)


broker = _broker()


@broker.task(task_name="drained")
async def drained() -> None:
    await tally.work()


@broker.task(task_name="answer")
async def answer() -> int:
    return 1


class Taskiq:
    async def open(self) -> None:
        await broker.startup()

    async def enqueue(self, count: int) -> None:
        await client.batches(count, drained.kiq)

    async def call(self) -> Any:
        task = await answer.kiq()
        return (await task.wait_result(check_interval=LOOK_EACH)).return_value

    async def fan(self, width: int) -> None:
        await client.side_by_side(width, self.call)

    async def close(self) -> None:
        await broker.shutdown()


if __name__ == "__main__" and sys.argv[1] == "client":
    client.run(client.serve(Taskiq()))
