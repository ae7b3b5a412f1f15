"""celery; its own command runs the worker."""

import sys
from typing import Any

from celery import Celery

from . import client, tally

app = Celery("bench", broker=client.url(), backend=client.url())
app.conf.update(result_expires=60, worker_hijack_root_logger=False)


@app.task(name="drained", ignore_result=True)
def drained() -> None:
    tally.work_in_thread()


@app.task(name="answer")
def answer() -> int:
    return 1


class CeleryClient:
    def open(self) -> None:
        """Connections are opened when they are needed."""

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            drained.delay()

    def call(self) -> Any:
        return answer.delay().get(timeout=20)

    def fan(self, width: int) -> Any:
        sent = [answer.delay() for _ in range(width)]
        return [each.get(timeout=20) for each in sent]

    def close(self) -> None:
        app.close()


if __name__ == "__main__" and sys.argv[1] == "client":
    client.run(client.serve(CeleryClient()))
