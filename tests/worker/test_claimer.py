"""When a worker asks for jobs, and when a wake spares it the asking."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import time

from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.workshop import KEYS
from worker.claimer import Claimer
from worker.claiming import Asker, Claimed
from worker.link import Link
from worker.payloads import encode_job
from worker.queue import Claim, QueueClient
from worker.slots import Slots
from worker.standing import Standing

LEASE = timedelta(seconds=30)
SOON = timedelta(milliseconds=400)
"""Well below the second after which a sleeping worker looks by itself."""


@dataclass(eq=False)
class Looking:
    """A claimer that looks for jobs, and the claims that it got."""

    link: Link
    claimer: Claimer
    slots: Slots
    got: list[Claim] = field(default_factory=list[Claim])

    async def until_asleep(self) -> None:
        """Wait until it sleeps on its wake lists."""

        async def sleeps() -> bool:
            clients = await self.link.command("CLIENT", "LIST")
            return b"cmd=blpop" in clients

        await wait_until(sleeps, for_="the claimer to sleep")

    async def put_without_a_token(self, job_id: str) -> None:
        """Put a due job on the first queue, as one that was delayed, or that arq's client sends."""
        payload = encode_job("f", [], enqueued=0)
        queue = KEYS.queue(self.claimer.queues[0]).queue
        await self.link.all(
            [
                ("SET", f"arq:job:{job_id}", payload, "PX", 60_000),
                ("ZADD", queue, int(time() * 1000) - 1, job_id),
            ]
        )


@asynccontextmanager
async def looking(
    link: Link, *queues: str, slots: int, own: Counter[str] | None = None
) -> AsyncGenerator[Looking]:
    """Let a claimer look for the jobs of the queues."""
    standing, room, owner = Standing(LEASE), Slots(slots), Owner()
    standing.renewed()

    def begin(claimed: Claimed) -> None:
        one.got += [job.claim for job in claimed.jobs]

    claimer = Claimer(
        link=link,
        keys=KEYS,
        asker=Asker(KEYS, "w", LEASE),
        slots=room,
        standing=standing,
        queues=queues,
        own=own or Counter(),
        begin=begin,
        renew_first=lambda: None,
    )
    room.on_free = claimer.make_use
    one = Looking(link, claimer, room)
    owner.start(claimer.look(), name="look")
    claimer.ask()
    try:
        yield one
    finally:
        claimer.stop()
        await owner.close()
        for claim in one.got:
            await link.run("finish", [claim.queue], [claim.job_id, claim.token, b"", 1])


async def test_a_freed_slot_asks_for_nothing_while_a_wake_would_tell(link: Link):
    async with looking(link, "tools", slots=2) as one:
        await one.until_asleep()
        asked = one.claimer._turn

        one.slots.leave(one.slots.take())
        await asyncio.sleep(0)

        assert one.claimer._turn == asked


async def test_a_freed_slot_asks_when_a_claim_without_a_wake_filled_the_worker(link: Link):
    async with looking(link, "tools", slots=1) as one:
        await one.until_asleep()
        await one.put_without_a_token("t/first")
        await one.put_without_a_token("t/second")
        one.claimer.soon()
        await wait_until(lambda: len(one.got) == 1, for_="the first job")

        one.slots.leave(one.got[0].slot)
        await wait_until(lambda: len(one.got) == 2, within=SOON, for_="the second job")


async def test_a_freed_slot_asks_when_not_all_wakes_would_tell(link: Link):
    own = Counter({"runs:batch": 1})
    async with looking(link, "runs", "runs:batch", slots=2, own=own) as one:
        await one.until_asleep()
        asked = one.claimer._turn

        one.slots.leave(one.slots.take())
        await wait_until(lambda: one.claimer._turn > asked, for_="another claim", within=SOON)


async def test_a_stopped_claimer_hands_its_wake_token_on(link: Link):
    async with looking(link, "tools", slots=1) as one:
        await one.until_asleep()
        one.claimer.is_stopped = True

        job_id = await QueueClient(link, KEYS).enqueue("tools", "f")

        async def is_back() -> bool:
            return bool(await link.command("LLEN", KEYS.queue("tools").wake))

        await wait_until(is_back, for_="the token to be back")
        await link.run("remove", [KEYS.queue("tools").queue], [job_id])
