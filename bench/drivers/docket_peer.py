"""docket (on PyPI: pydocket)."""

import sys
from datetime import timedelta
from typing import Any

from docket import Docket, Worker

from . import client, tally

SERVER = f"{client.url()}?max_connections=2000"


async def drained() -> None:
    await tally.work()


async def answer() -> int:
    return 1


def _docket() -> Docket:
    docket = Docket(name="bench", url=SERVER, execution_ttl=timedelta(seconds=60))
    docket.register(drained)
    docket.register(answer)
    return docket


class DocketClient:
    async def open(self) -> None:
        self.docket = _docket()
        await self.docket.__aenter__()

    async def _enqueue(self) -> None:
        await self.docket.add(drained)()

    async def enqueue(self, count: int) -> None:
        await client.batches(count, self._enqueue)

    async def call(self) -> Any:
        execution = await self.docket.add(answer)()
        return await execution.get_result()

    async def fan(self, width: int) -> None:
        await client.side_by_side(width, self.call)

    async def close(self) -> None:
        await self.docket.__aexit__(None, None, None)


async def work() -> None:
    async with _docket() as docket, Worker(docket, concurrency=100) as worker:
        await worker.run_forever()


if __name__ == "__main__":
    client.run(work() if sys.argv[1] == "worker" else client.serve(DocketClient()))
