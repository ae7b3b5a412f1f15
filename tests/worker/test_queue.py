"""The queue's client and scripts, on fakeredis and on the real server."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.waiting import wait_until
from worker.keys import Keys
from worker.link import Link
from worker.payloads import decode_job
from worker.queue import QueueClient

LEASE = 10_000
JOB = ["t/x/job"]


@pytest.fixture
def queue(any_link: Link, keys: Keys) -> QueueClient:
    return QueueClient(any_link, keys)


class Hands:
    """Speaks the scripts as a worker would, one call at a time."""

    def __init__(self, link: Link, keys: Keys, worker_id: str = "w") -> None:
        self.link = link
        self.keys = keys
        self.worker_id = worker_id
        self.next = 1

    async def claim(
        self,
        *queues: str,
        free: int = 10,
        own: int = 0,
        most: int = 10,
        lease: int = LEASE,
        take_over: bool = True,
    ) -> list[Any]:
        names = [
            k
            for q in queues or ("tools",)
            for k in (self.keys.queue(q).queue, self.keys.workers(q))
        ]
        limits = [part for _ in queues or ("tools",) for part in (own, most)]
        first, self.next = self.next, self.next + free
        arguments = [self.worker_id, lease, first, free, int(take_over), *limits]
        return await self.link.run("claim", names, arguments)

    async def jobs(self, *queues: str, **how: Any) -> list[tuple[str, str]]:
        """Claim, and return ids and tokens."""
        return [(job[1].decode(), job[3].decode()) for job in (await self.claim(*queues, **how))[0]]

    async def finish(self, job_id: str, token: str, result: str = "", queue: str = "tools") -> int:
        name = self.keys.queue(queue).queue
        return await self.link.run("finish", [name], [job_id, token, result, 1000])

    async def retry(
        self,
        job_id: str,
        token: str,
        delay: int = 0,
        due: str = "",
        counted: int = 0,
        patience: int = 0,
    ) -> int:
        name = self.keys.queue("tools").queue
        return await self.link.run("retry", [name], [job_id, token, delay, due, counted, patience])

    async def renew(self, *claims: tuple[str, str], lease: int = LEASE) -> list[list[bytes]]:
        tools = self.keys.queue("tools").queue
        names = [
            self.keys.worker(self.worker_id),
            self.keys.queues,
            tools,
            self.keys.workers("tools"),
        ]
        triples = [part for job_id, token in claims for part in (tools, job_id, token)]
        return await self.link.run(
            "renew", names, [self.worker_id, lease, lease, "{}", "j", "tools", *triples]
        )


@pytest.fixture
def hands(any_link: Link, keys: Keys) -> Hands:
    return Hands(any_link, keys)


async def test_an_enqueued_job_can_be_claimed_once(queue: QueueClient, hands: Hands):
    job_id = await queue.enqueue("tools", "search", ["x", 1])

    jobs, missing, left, _ = await hands.claim()

    assert [(job[0], job[1].decode(), job[3]) for job in jobs] == [(1, job_id, b"w:1")]
    assert decode_job(jobs[0][2]).arguments == ["x", 1]
    assert (missing, left) == ([], 0)
    assert await hands.jobs() == []


async def test_an_id_that_is_taken_is_refused_while_queued_claimed_or_kept(
    queue: QueueClient, hands: Hands
):
    assert await queue.enqueue("tools", "f", job_id="t/a") == "t/a"
    assert await queue.enqueue("tools", "f", job_id="t/a") is None

    [(job_id, token)] = await hands.jobs()
    assert await queue.enqueue("tools", "f", job_id="t/a") is None

    await hands.finish(job_id, token, result="{}")
    assert await queue.enqueue("tools", "f", job_id="t/a") is None


async def test_an_id_can_be_enqueued_again_after_its_end_and_starts_at_try_one(
    queue: QueueClient, hands: Hands
):
    await queue.enqueue("tools", "f", job_id="t/a")
    [claim] = await hands.jobs()
    await hands.retry(*claim, counted=1)
    [claim] = await hands.jobs()
    await hands.finish(*claim)

    await queue.enqueue("tools", "f", job_id="t/a")

    assert (await hands.claim())[0][0][7] == 1


async def test_a_delayed_job_is_claimed_when_it_is_due_by_the_servers_clock(
    queue: QueueClient, hands: Hands
):
    await queue.enqueue("tools", "f", delay=timedelta(milliseconds=150))

    jobs, _, left, later = await hands.claim()
    assert (jobs, left) == ([], 0)
    assert 0 < later <= 150

    async def is_claimed() -> bool:
        return len(await hands.jobs()) == 1

    await wait_until(is_claimed, for_="the job to be due")


async def test_depth_counts_waiting_and_claimed_jobs(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f")
    await queue.enqueue("tools", "f")
    await hands.claim(free=1)

    assert await queue.depth("tools") == 2


async def test_a_waiting_job_can_be_removed_and_a_claimed_one_not(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/a")
    assert await queue.remove("tools", "t/a") is True
    assert await queue.remove("tools", "t/a") is False

    await queue.enqueue("tools", "f", job_id="t/b")
    await hands.claim()
    assert await queue.remove("tools", "t/b") is False


async def test_names_of_queues_are_registered(queue: QueueClient, any_link: Link, keys: Keys):
    await queue.enqueue("gpu", "f")

    assert await any_link.command("SMEMBERS", keys.queues) == [b"gpu"]


async def test_queues_are_asked_in_order(queue: QueueClient, hands: Hands):
    await queue.enqueue("second", "f", job_id="t/2")
    await queue.enqueue("first", "f", job_id="t/1")

    jobs = (await hands.claim("first", "second"))[0]

    assert [(job[0], job[1]) for job in jobs] == [(1, b"t/1"), (2, b"t/2")]


async def test_a_queue_gives_no_more_than_its_limit(queue: QueueClient, hands: Hands):
    for _ in range(5):
        await queue.enqueue("tools", "f")

    jobs, _, left, _ = await hands.claim(most=2)

    assert (len(jobs), left) == (2, 3)


async def test_a_worker_takes_its_share_and_one_more_at_most(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    for _ in range(20):
        await queue.enqueue("tools", "f")
    await hands.renew()
    other = Hands(any_link, keys, "v")
    await other.renew()

    assert len(await hands.jobs(free=20, most=20)) == 10
    assert len(await hands.jobs(free=10, most=20, own=10)) == 1
    assert len(await other.jobs(free=20, most=20)) == 9


async def test_two_jobs_go_to_two_workers(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    other = Hands(any_link, keys, "v")
    await hands.renew()
    await other.renew()
    await queue.enqueue("tools", "f")
    await queue.enqueue("tools", "f")

    assert len(await hands.jobs()) == 1
    assert len(await other.jobs()) == 1


async def test_a_thousand_jobs_of_one_millisecond_are_all_claimed_once(
    any_link: Link, hands: Hands, keys: Keys
):
    name = keys.queue("tools").queue
    for number in range(1000):
        any_link.send("SET", f"arq:job:t/{number}", "{}")
        any_link.send("ZADD", name, 1, f"t/{number}")

    claimed = [job_id for _ in range(10) for job_id, _ in await hands.jobs(free=100, most=100)]

    assert len(set(claimed)) == len(claimed) == 1000


async def test_a_finished_job_leaves_nothing_but_its_result(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    await queue.enqueue("tools", "f", job_id="t/a")
    [(job_id, token)] = await hands.jobs()

    assert await hands.finish(job_id, token, result="{}") == 1

    assert sorted(await any_link.command("KEYS", "*")) == [b"arq:result:t/a", keys.queues.encode()]


@pytest.mark.parametrize("script", ["finish", "retry", "lapse"])
async def test_a_stale_token_changes_nothing(
    queue: QueueClient, hands: Hands, any_link: Link, script: str
):
    await queue.enqueue("tools", "f", job_id="t/a")
    [(job_id, _)] = await hands.jobs(lease=1)
    [(_, owners)] = await _when_lapsed(hands)
    before = await _dump(any_link)

    name = hands.keys.queue("tools").queue
    stale = await any_link.run(script, [name], [job_id, "w:1", "0", "", "0", "0"])

    assert stale == 0
    assert await _dump(any_link) == before
    assert await hands.finish(job_id, owners) == 1


async def _when_lapsed(hands: Hands, **how: Any) -> list[tuple[str, str]]:
    taken: list[tuple[str, str]] = []

    async def is_taken() -> bool:
        taken.extend(await hands.jobs(**how))
        return bool(taken)

    await wait_until(is_taken, for_="a claim to lapse")
    return taken


async def _dump(link: Link) -> list[object]:
    names: list[bytes] = sorted(await link.command("KEYS", "*"))
    return [(name, await link.command("DUMP", name)) for name in names if b"arq:" in name]


async def test_a_lapsed_claim_nobody_took_still_finishes(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/a")
    [claim] = await hands.jobs(lease=1)
    await _until_due(hands)

    assert await hands.finish(*claim) == 1


async def _until_due(hands: Hands) -> None:
    async def lapsed() -> bool:
        name = hands.keys.queue("tools").claims
        server = await hands.link.command("TIME")
        now = int(server[0]) * 1000 + int(server[1]) // 1000
        return bool(await hands.link.command("ZCOUNT", name, "-inf", now))

    await wait_until(lapsed, for_="the lease to end")


async def test_lapsed_claims_go_before_a_backlog_and_are_counted(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/old")
    await hands.jobs(lease=1)
    for number in range(300):
        await queue.enqueue("tools", "f", job_id=f"t/{number}")
    await _until_due(hands)

    [job] = (await hands.claim(free=1))[0]

    assert (job[1], job[4], job[5]) == (b"t/old", 1, 1)


async def test_lapsed_claims_are_left_alone_by_who_may_not_take_over(
    queue: QueueClient, hands: Hands
):
    await queue.enqueue("tools", "f", job_id="t/old")
    await hands.jobs(lease=1)
    await queue.enqueue("tools", "f", job_id="t/new")
    await _until_due(hands)

    assert [job_id for job_id, _ in await hands.jobs(take_over=False)] == ["t/new"]
    assert [job_id for job_id, _ in await hands.jobs()] == ["t/old"]


async def test_jobs_in_progress_elsewhere_do_not_hide_the_one_behind_them(
    queue: QueueClient, hands: Hands, any_link: Link
):
    for number in range(500):
        await queue.enqueue("tools", "f", job_id=f"t/busy{number}")
        any_link.send("SET", f"arq:in-progress:t/busy{number}", "1", "PX", 60_000)
    await queue.enqueue("tools", "f", job_id="t/free")

    taken = await _when_lapsed(hands)

    assert [job_id for job_id, _ in taken] == ["t/free"]
    name = hands.keys.queue("tools").queue
    assert await any_link.command("ZCOUNT", name, 1, "+inf") == 501


async def test_a_job_without_a_payload_is_released_and_told(
    queue: QueueClient, hands: Hands, any_link: Link
):
    await queue.enqueue("tools", "f", job_id="t/a")
    await any_link.command("DEL", "arq:job:t/a")

    jobs, missing, _, _ = await hands.claim()

    assert (jobs, missing) == ([], [b"t/a"])
    assert await queue.depth("tools") == 0


async def test_a_payload_with_a_time_to_live_lives_as_long_as_its_job(
    hands: Hands, any_link: Link, queue: QueueClient
):
    await queue.enqueue("tools", "f", job_id="t/a")
    await any_link.command("PEXPIRE", "arq:job:t/a", 50_000)

    await hands.claim()

    assert await any_link.command("PTTL", "arq:job:t/a") == -1


async def test_a_claim_that_leaves_nothing_due_deletes_the_wake_list(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    await queue.enqueue("tools", "f")
    await queue.enqueue("tools", "f")

    await hands.claim(free=1)
    assert await any_link.command("LLEN", keys.queue("tools").wake) == 2

    await hands.claim(free=1)
    assert await any_link.command("EXISTS", keys.queue("tools").wake) == 0


async def test_the_wake_list_is_capped(queue: QueueClient, any_link: Link, keys: Keys):
    for _ in range(1100):
        await queue.enqueue("tools", "f")

    assert await any_link.command("LLEN", keys.queue("tools").wake) == 1024


async def test_a_job_given_back_keeps_its_place_and_its_tries(queue: QueueClient, hands: Hands):
    for number in range(3):
        await queue.enqueue("tools", "f", job_id=f"t/{number}")
    [job] = (await hands.claim(free=1))[0]

    given_back = await hands.retry(job[1].decode(), job[3].decode(), due=job[8].decode())

    assert given_back == 1
    [again] = (await hands.claim(free=1))[0]
    assert (again[1], again[7]) == (job[1], 1)


async def test_a_counted_retry_counts_and_waits(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/a")
    [claim] = await hands.jobs()

    await hands.retry(*claim, delay=100, counted=1)

    jobs, _, left, later = await hands.claim()
    assert (jobs, left) == ([], 0)
    assert 0 < later <= 100
    [(_, token)] = await _when_lapsed(hands)
    assert token != claim[1]


async def test_a_retry_past_its_patience_is_refused_and_the_claim_stands(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    await queue.enqueue("tools", "f", job_id="t/a")
    [claim] = await hands.jobs()
    assert await hands.retry(*claim, patience=30) == 1
    assert await any_link.command("EXISTS", keys.queue("tools").unknown("t/a")) == 1
    claim = ("", "")

    async def is_refused() -> bool:
        nonlocal claim
        [claim] = await hands.jobs()
        return await hands.retry(*claim, patience=30) == 2

    await wait_until(is_refused, for_="the patience to end")
    assert await hands.finish(*claim) == 1
    assert await any_link.command("EXISTS", keys.queue("tools").unknown("t/a")) == 0


async def test_a_retry_resets_the_count_of_lapses(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/a")
    await hands.jobs(lease=1)
    [claim] = await _when_lapsed(hands)
    await hands.retry(*claim)

    await hands.jobs(lease=1)
    await _until_due(hands)
    [job] = (await hands.claim())[0]

    assert job[4] == 1


async def test_a_renewal_tells_lost_claims_and_restores_what_was_removed(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    await queue.enqueue("tools", "f", job_id="t/a")
    [claim] = await hands.jobs()
    await any_link.command("ZREM", keys.queue("tools").queue, "t/a")
    await any_link.command("DEL", "arq:in-progress:t/a")

    lost, aborted = await hands.renew(claim, ("t/a", "w:99"), ("t/none", "w:98"))

    assert (lost, aborted) == ([b"w:99", b"w:98"], [])
    assert await any_link.command("ZSCORE", keys.queue("tools").queue, "t/a") is not None
    assert await any_link.command("GET", "arq:in-progress:t/a") == claim[1].encode()


async def test_a_renewal_tells_what_is_to_be_aborted_unless_that_is_old(
    queue: QueueClient, hands: Hands, any_link: Link
):
    await queue.enqueue("tools", "f", job_id="t/a")
    await queue.enqueue("tools", "f", job_id="t/b")
    claims = await hands.jobs()
    seconds = int((await any_link.command("TIME"))[0])
    await any_link.command("ZADD", "arq:abort", seconds * 1000, "t/a", (seconds - 62) * 1000, "t/b")

    _, aborted = await hands.renew(*claims)

    assert aborted == [dict(claims)["t/a"].encode()]


async def test_a_claim_tells_whether_the_job_is_to_be_aborted(
    queue: QueueClient, hands: Hands, any_link: Link
):
    await queue.enqueue("tools", "f", job_id="t/a")
    await queue.enqueue("tools", "f", job_id="t/b")
    seconds = int((await any_link.command("TIME"))[0])
    await any_link.command("ZADD", "arq:abort", seconds * 1000, "t/a", (seconds - 62) * 1000, "t/b")

    jobs = (await hands.claim())[0]

    assert {job[1]: job[6] for job in jobs} == {b"t/a": 1, b"t/b": 0}


async def test_what_a_lost_reply_claimed_can_be_given_back(
    queue: QueueClient, hands: Hands, any_link: Link, keys: Keys
):
    for number in range(4):
        await queue.enqueue("tools", "f", job_id=f"t/{number}")
    await hands.jobs(free=2)
    await hands.jobs(free=2)

    name = keys.queue("tools").queue
    assert await any_link.run("disown", [name], ["w", 1, 2]) == 2

    jobs = (await hands.claim())[0]
    assert sorted((job[1], job[4], job[7]) for job in jobs) == [(b"t/0", 0, 1), (b"t/1", 0, 1)]


async def test_a_lapsing_claim_is_taken_over_soon(queue: QueueClient, hands: Hands):
    await queue.enqueue("tools", "f", job_id="t/a")
    [(job_id, token)] = await hands.jobs(lease=60_000)

    assert (
        await hands.link.run("lapse", [hands.keys.queue("tools").queue], [job_id, token, 20]) == 1
    )

    [(again, _)] = await _when_lapsed(hands)
    assert again == "t/a"


def test_the_contract_ran_on_both_servers(request: pytest.FixtureRequest):
    names: Sequence[str] = [item.name for item in request.session.items]

    assert any("[fake]" in name for name in names)
    assert any("[real]" in name for name in names)
