"""dramatiq; its own command runs the worker."""

import sys
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from . import client, tally

broker = RedisBroker(url=client.url())
broker.add_middleware(Results(backend=RedisBackend(url=client.url()), result_ttl=60_000))
dramatiq.set_broker(broker)


@dramatiq.actor
def drained() -> None:
    tally.work_in_thread()


@dramatiq.actor(store_results=True)
def answer() -> int:
    return 1


class Dramatiq:
    def open(self) -> None:
        """The broker is open."""

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            drained.send()

    def call(self) -> Any:
        return answer.send().get_result(block=True, timeout=20_000)

    def fan(self, width: int) -> Any:
        sent = [answer.send() for _ in range(width)]
        return [each.get_result(block=True, timeout=20_000) for each in sent]

    def close(self) -> None:
        broker.close()


if __name__ == "__main__" and sys.argv[1] == "client":
    client.run(client.serve(Dramatiq()))
