"""rq; its own command runs the worker."""

import sys
from typing import Any

import redis
from rq import Queue

from . import client, rq_jobs


class Rq:
    def open(self) -> None:
        self.queue = Queue("default", connection=redis.Redis.from_url(client.url()))

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.queue.enqueue(rq_jobs.drained, result_ttl=0)

    def call(self) -> Any:
        return self.queue.enqueue(rq_jobs.answer, result_ttl=60).latest_result(timeout=20)

    def fan(self, width: int) -> Any:
        sent = [self.queue.enqueue(rq_jobs.answer, result_ttl=60) for _ in range(width)]
        return [each.latest_result(timeout=20) for each in sent]

    def close(self) -> None:
        self.queue.connection.close()


if __name__ == "__main__" and sys.argv[1] == "client":
    client.run(client.serve(Rq()))
