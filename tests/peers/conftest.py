"""Stock arq, as its users have it, beside the processes that we ship."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest
from arq.connections import ArqRedis
from redis.asyncio import Redis

from tests.processes import Place, open_place
from worker.keys import Keys
from worker.payloads import dumps, loads

KEYS = Keys("loopmill")


class Opener(Protocol):
    """Opens an API with workers for the queues."""

    def __call__(self, *workers: str) -> AbstractContextManager[Place]: ...


@pytest.fixture
def opened(redis_url: str, tmp_path: Path) -> Opener:
    def opener(*workers: str) -> AbstractContextManager[Place]:
        return open_place(redis_url, tmp_path, *workers)

    return opener


@pytest.fixture
async def arq(redis_url: str) -> AsyncIterator[ArqRedis]:
    """arq's own client: our serialisers are all that it is told of us."""
    async with Redis.from_url(redis_url) as client:
        yield ArqRedis(
            client.connection_pool,
            job_serializer=dumps,
            job_deserializer=loads,
            default_queue_name=KEYS.queue("runs").queue,
        )
