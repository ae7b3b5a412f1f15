"""The worker as a whole, against a real server: what becomes of jobs, whatever they do."""

import asyncio
import logging
import time
from datetime import timedelta
from typing import Any

import pytest
from arq.cron import cron
from arq.worker import Retry

from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.workshop import KEYS, make_worker, running, settings
from worker.functions import job_function
from worker.link import Link
from worker.payloads import dumps, loads
from worker.queue import POISON, RELEASED, Claim, QueueClient, Released, Stop


@pytest.fixture
def queue(link: Link) -> QueueClient:
    return QueueClient(link, KEYS)


class Notes:
    """What job functions saw."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.go_on = asyncio.Event()

    async def note(self, ctx: dict[str, Any], *arguments: Any) -> None:
        self.seen.append(arguments[0] if len(arguments) == 1 else arguments)

    async def wait(self, ctx: dict[str, Any], number: int = 0) -> None:
        self.seen.append(number)
        await self.go_on.wait()

    async def has_seen(self, count: int, for_: str = "the jobs to run") -> None:
        await wait_until(lambda: len(self.seen) >= count, for_=for_)


@pytest.fixture
def notes() -> Notes:
    return Notes()


async def _gone(queue: QueueClient, name: str = "tools") -> None:
    async def is_empty() -> bool:
        return await queue.depth(name) == 0

    await wait_until(is_empty, for_="the queue to be empty")


async def _result(link: Link, job_id: str) -> dict[str, Any]:
    async def is_there() -> bool:
        return bool(await link.command("EXISTS", f"arq:result:{job_id}"))

    await wait_until(is_there, for_="the result")
    return loads(await link.command("GET", f"arq:result:{job_id}"))


async def test_a_job_runs_with_its_arguments_and_leaves_the_queue(
    link: Link, queue: QueueClient, notes: Notes
):
    async with running(make_worker(link, [job_function(notes.note, name="note")])):
        await queue.enqueue("tools", "note", ["x", {"y": 1}])

        await _gone(queue)

    assert notes.seen == [("x", {"y": 1})]


async def test_a_result_is_kept_as_arq_reads_it(link: Link, queue: QueueClient):
    async def add(ctx: dict[str, Any], one: int, two: int) -> int:
        return one + two

    async with running(make_worker(link, [job_function(add, name="add")])):
        job_id = await queue.enqueue("tools", "add", [1, 2])
        result = await _result(link, str(job_id))

    assert (result["s"], result["r"], result["f"]) == (True, 3, "add")


async def test_a_failed_job_leaves_its_errors_type_and_message(link: Link, queue: QueueClient):
    class AwkwardError(Exception):
        def __init__(self, code: int, reason: str) -> None:
            super().__init__(code, reason, object())
            self.lock = asyncio.Lock()

    async def fail(ctx: dict[str, Any]) -> None:
        raise AwkwardError(7, "naïve ☃ \ud800" + "x" * 5_000_000)

    async with running(make_worker(link, [job_function(fail, name="fail")])):
        job_id = await queue.enqueue("tools", "fail")
        result = await _result(link, str(job_id))

    assert result["s"] is False
    assert result["r"].type_name == "AwkwardError"
    assert "naïve ☃" in result["r"].message
    assert len(result["r"].message) < 5000


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_nothing_that_a_job_raises_ends_the_worker(
    link: Link, queue: QueueClient, notes: Notes, error: BaseException
):
    async def fail(ctx: dict[str, Any]) -> None:
        raise error

    functions = [job_function(fail, name="fail"), job_function(notes.note, name="note")]
    async with running(make_worker(link, functions)):
        job_id = await queue.enqueue("tools", "fail")
        result = await _result(link, str(job_id))
        await queue.enqueue("tools", "note", [1])
        await notes.has_seen(1)

    assert result["s"] is False


async def test_a_retry_runs_the_job_again_after_its_delay(link: Link, queue: QueueClient):
    tries: list[tuple[int, float]] = []

    async def flaky(ctx: dict[str, Any]) -> str:
        tries.append((ctx["job_try"], time.monotonic()))
        if ctx["job_try"] < 3:
            raise Retry(defer=0.1 * (ctx["job_try"] - 1))
        return "done"

    async with running(make_worker(link, [job_function(flaky, name="flaky")])):
        job_id = await queue.enqueue("tools", "flaky")
        result = await _result(link, str(job_id))

    assert result["r"] == "done"
    assert [number for number, _ in tries] == [1, 2, 3]
    assert tries[2][1] - tries[1][1] >= 0.1


async def test_a_job_that_only_retries_ends_after_its_tries(link: Link, queue: QueueClient):
    async def never(ctx: dict[str, Any]) -> None:
        raise Retry

    async with running(make_worker(link, [job_function(never, name="never", max_tries=3)])):
        job_id = await queue.enqueue("tools", "never")
        result = await _result(link, str(job_id))

    assert "tried 3 times" in result["r"].message


async def test_a_job_past_its_limit_fails_as_timed_out(
    link: Link, queue: QueueClient, notes: Notes
):
    slow = job_function(notes.wait, name="wait", timeout=timedelta(milliseconds=50))
    async with running(make_worker(link, [slow])):
        job_id = await queue.enqueue("tools", "wait")
        result = await _result(link, str(job_id))

    assert result["r"].type_name == "TimeoutError"


async def test_a_freed_slot_claims_at_once(link: Link, queue: QueueClient, notes: Notes):
    for number in range(200):
        await queue.enqueue("tools", "note", [number])
    worker = make_worker(link, [job_function(notes.note, name="note")], concurrency=1)

    started = time.monotonic()
    async with running(worker):
        await notes.has_seen(200)

    assert sorted(notes.seen) == list(range(200))
    assert time.monotonic() - started < 2


async def test_an_idle_worker_is_woken_by_an_enqueue(link: Link, queue: QueueClient, notes: Notes):
    async with running(make_worker(link, [job_function(notes.note, name="note")])):
        await queue.enqueue("tools", "note", [0])
        await notes.has_seen(1)
        waits: list[float] = []
        for number in range(20):
            started = time.monotonic()
            await queue.enqueue("tools", "note", [number])
            await notes.has_seen(number + 2)
            waits.append(time.monotonic() - started)

    assert sorted(waits)[10] < 0.05


async def test_no_more_jobs_run_than_there_are_slots(link: Link, queue: QueueClient, notes: Notes):
    for number in range(10):
        await queue.enqueue("tools", "wait", [number])

    async with running(make_worker(link, [job_function(notes.wait, name="wait")], concurrency=3)):
        await notes.has_seen(3)
        await _registered(link, 1)
        assert len(notes.seen) == 3
        notes.go_on.set()
        await _gone(queue)

    assert sorted(notes.seen) == list(range(10))


async def test_two_jobs_go_to_two_idle_workers(link: Link, queue: QueueClient):
    seen: list[str] = []
    go_on = asyncio.Event()

    async def wait(ctx: dict[str, Any]) -> None:
        seen.append(ctx["claim"].worker_id)
        await go_on.wait()

    workers = [make_worker(link, [job_function(wait, name="wait")]) for _ in range(2)]
    async with running(*workers):
        await _registered(link, 2)
        await queue.enqueue("tools", "wait")
        await queue.enqueue("tools", "wait")
        await wait_until(lambda: len(seen) == 2, for_="both calls to run")
        go_on.set()
        await _gone(queue)

    assert len(set(seen)) == 2


async def _registered(link: Link, count: int) -> None:
    async def are_there() -> bool:
        return await link.command("ZCARD", KEYS.workers("tools")) == count

    await wait_until(are_there, for_="the workers to register")


async def test_of_twenty_jobs_on_two_idle_workers_none_takes_more_than_twelve(
    link: Link, queue: QueueClient
):
    seen: list[str] = []
    go_on = asyncio.Event()

    async def wait(ctx: dict[str, Any]) -> None:
        seen.append(ctx["claim"].worker_id)
        await go_on.wait()

    function = job_function(wait, name="wait")
    workers = [make_worker(link, [function], concurrency=20) for _ in range(2)]
    async with running(*workers):
        await _registered(link, 2)
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(queue.enqueue("tools", "wait"))
        await wait_until(lambda: len(seen) == 20, for_="all to run")
        go_on.set()
        await _gone(queue)

    assert max(seen.count(worker.worker_id) for worker in workers) <= 12


async def test_two_workers_do_each_job_once(link: Link, queue: QueueClient, notes: Notes):
    async with asyncio.TaskGroup() as group:
        for number in range(500):
            group.create_task(queue.enqueue("tools", "note", [number]))

    async with running(*(make_worker(link, [job_function(notes.note, name="note")]) for _ in "ab")):
        await _gone(queue)

    assert sorted(notes.seen) == list(range(500))


async def test_a_released_claim_is_left_alone(
    link: Link, queue: QueueClient, caplog: pytest.LogCaptureFixture
):
    async def settle(ctx: dict[str, Any]) -> Released:
        claim: Claim = ctx["claim"]
        claim.released = True
        await link.run("finish", [claim.queue], [claim.job_id, claim.token, "", 1])
        await asyncio.sleep(0.6)
        return RELEASED

    worker = make_worker(link, [job_function(settle, name="settle", settles_itself=True)])
    async with running(worker):
        await queue.enqueue("tools", "settle")
        await wait_until(lambda: worker._hand.counts["complete"] == 1, for_="the job to end")

    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_function_that_settles_itself_and_fails_lets_its_claim_lapse(
    link: Link, queue: QueueClient
):
    lapses: list[int] = []

    async def settle(ctx: dict[str, Any]) -> Released:
        claim: Claim = ctx["claim"]
        lapses.append(claim.lapses)
        if claim.lapses < 1:
            raise OSError("the store is away")
        await link.run("finish", [claim.queue], [claim.job_id, claim.token, "", 1])
        return RELEASED

    worker = make_worker(link, [job_function(settle, name="settle", settles_itself=True)])
    async with running(worker):
        await queue.enqueue("tools", "settle")
        await _gone(queue)

    assert lapses == [0, 1]


async def test_an_aborted_job_is_cancelled_at_the_next_renewal(
    link: Link, queue: QueueClient, notes: Notes
):
    async with running(make_worker(link, [job_function(notes.wait, name="wait")])):
        job_id = await queue.enqueue("tools", "wait")
        await notes.has_seen(1)
        seconds = int((await link.command("TIME"))[0])
        await link.command("ZADD", "arq:abort", seconds * 1000, str(job_id))
        result = await _result(link, str(job_id))

    assert isinstance(result["r"], asyncio.CancelledError)


async def test_a_job_aborted_before_its_start_never_starts(
    link: Link, queue: QueueClient, notes: Notes
):
    job_id = await queue.enqueue("tools", "note", [1])
    seconds = int((await link.command("TIME"))[0])
    await link.command("ZADD", "arq:abort", seconds * 1000, str(job_id))

    async with running(make_worker(link, [job_function(notes.note, name="note")])):
        result = await _result(link, str(job_id))

    assert isinstance(result["r"], asyncio.CancelledError)
    assert notes.seen == []


async def test_a_function_that_settles_itself_is_told_that_it_was_aborted_before(
    link: Link, queue: QueueClient
):
    seen: list[Stop | None] = []

    async def settle(ctx: dict[str, Any]) -> None:
        seen.append(ctx["claim"].stop)

    job_id = await queue.enqueue("tools", "settle")
    seconds = int((await link.command("TIME"))[0])
    await link.command("ZADD", "arq:abort", seconds * 1000, str(job_id))

    function = job_function(settle, name="settle", settles_itself=True)
    async with running(make_worker(link, [function])):
        await _gone(queue)

    assert seen == [Stop.ABORTED]


async def test_a_function_that_was_told_of_its_abortion_can_still_lose_its_claim(
    link: Link, queue: QueueClient
):
    stops: list[Stop | None] = []

    async def settle(ctx: dict[str, Any]) -> None:
        claim: Claim = ctx["claim"]
        stops.append(claim.stop)
        await asyncio.sleep(0.5)
        stops.append(claim.stop)
        await link.command("HSET", claim.queue + ":tokens", claim.job_id, "another:1")
        try:
            await asyncio.sleep(60)
        finally:
            stops.append(claim.stop)

    job_id = await queue.enqueue("tools", "settle")
    seconds = int((await link.command("TIME"))[0])
    await link.command("ZADD", "arq:abort", seconds * 1000, str(job_id))
    function = job_function(settle, name="settle", settles_itself=True)
    async with running(make_worker(link, [function])):
        await wait_until(lambda: len(stops) == 3, for_="the loss to be told")

    assert stops == [Stop.ABORTED, Stop.ABORTED, Stop.LOST]


async def test_a_lost_claim_cancels_its_job_and_its_end_changes_nothing(
    link: Link, queue: QueueClient, caplog: pytest.LogCaptureFixture
):
    stops: list[Stop | None] = []

    async def hold(ctx: dict[str, Any]) -> str:
        claim: Claim = ctx["claim"]
        await link.command("HSET", claim.queue + ":tokens", claim.job_id, "another:1")
        try:
            await asyncio.sleep(60)
        finally:
            stops.append(claim.stop)
        return "never"

    async with running(make_worker(link, [job_function(hold, name="hold")])):
        job_id = await queue.enqueue("tools", "hold")
        await wait_until(lambda: bool(stops), for_="the job to be cancelled")

    assert stops == [Stop.LOST]
    assert await link.command("EXISTS", f"arq:job:{job_id}") == 1
    assert await link.command("EXISTS", f"arq:result:{job_id}") == 0


async def test_the_end_of_a_job_that_another_has_is_logged_once(
    link: Link, queue: QueueClient, caplog: pytest.LogCaptureFixture
):
    async def lose(ctx: dict[str, Any]) -> str:
        claim: Claim = ctx["claim"]
        await link.command("HSET", claim.queue + ":tokens", claim.job_id, "another:1")
        return "too late"

    worker = make_worker(link, [job_function(lose, name="lose")])
    async with running(worker):
        job_id = await queue.enqueue("tools", "lose")
        await wait_until(lambda: worker._hand.counts["complete"] == 1, for_="the job to end")
        await wait_until(lambda: not worker._hand.jobs, for_="the report")

    assert await link.command("EXISTS", f"arq:job:{job_id}") == 1
    assert sum("another worker has it" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b'{"f":"note"}',
        b'{"f":"note","a":5,"k":{},"et":1,"t":null}',
        b'{"f":"note","a":[1],"k":{"v":"new"},"et":1,"t":null}',
        b'{"f":"note","a":[],"k":{"unknown":1},"et":1,"t":null}',
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01t\x94N.",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"f":"note","a":' + b"[" * 100 + b"]" * 100 + b',"k":{},"et":1,"t":null}',
    ],
    ids=["cut", "list", "keys", "args", "version", "named", "pickle", "deep", "deep-args"],
)
async def test_a_payload_that_cannot_be_read_ends_its_job_and_nothing_else(
    link: Link, queue: QueueClient, notes: Notes, raw: bytes
):
    await link.command("SET", "arq:job:t/bad", raw)
    await link.command("ZADD", KEYS.queue("tools").queue, 1, "t/bad")
    strict = job_function(lambda_of_one(notes), name="note")

    async with running(make_worker(link, [strict])):
        result = await _result(link, "t/bad")
        await queue.enqueue("tools", "note", [1])
        await notes.has_seen(1)

    assert result["r"].type_name == "BadPayload"
    assert notes.seen == [1]


def lambda_of_one(notes: Notes) -> Any:
    async def note(ctx: dict[str, Any], number: int) -> None:
        notes.seen.append(number)

    return note


async def test_an_unknown_function_goes_back_to_the_queue_for_a_newer_worker(
    link: Link, queue: QueueClient, notes: Notes
):
    await queue.enqueue("tools", "note", [1])
    old = make_worker(link, [job_function(notes.wait, name="other")])
    async with running(old):
        await wait_until(lambda: old._hand.counts["retried"] == 1, for_="the job to go back")

    async with running(make_worker(link, [job_function(notes.note, name="note")])):
        await notes.has_seen(1)

    assert notes.seen == [1]


async def test_a_newer_payload_goes_back_to_the_queue(link: Link, queue: QueueClient, notes: Notes):
    raw = dumps({"t": None, "f": "note", "a": [1], "k": {"v": 2}, "et": 1})
    await link.command("SET", "arq:job:t/new", raw)
    await link.command("ZADD", KEYS.queue("tools").queue, 1, "t/new")
    worker = make_worker(link, [job_function(notes.note, name="note")])

    async with running(worker):
        await wait_until(lambda: worker._hand.counts["retried"] == 1, for_="the job to go back")

    assert await queue.depth("tools") == 1
    assert notes.seen == []


async def test_a_function_that_nobody_has_known_for_five_minutes_is_dead(
    link: Link, queue: QueueClient, notes: Notes
):
    dead: list[tuple[str, str]] = []

    async def bury(ctx: dict[str, Any], claim: Claim, reason: str) -> Released:
        dead.append((claim.job_id, reason))
        await link.run("finish", [claim.queue], [claim.job_id, claim.token, "", 1])
        return RELEASED

    job_id = await queue.enqueue("tools", "note", [1])
    noted = KEYS.queue("tools").unknown(str(job_id))
    await link.command("SET", noted, 1, "PX", 60_000)

    async with running(make_worker(link, [job_function(notes.wait, name="x")], on_dead=bury)):
        await _gone(queue)

    assert dead == [(job_id, "unknown_function")]


async def test_a_dead_job_that_nobody_settles_leaves_a_failed_result(
    link: Link, queue: QueueClient, notes: Notes
):
    async def not_mine(ctx: dict[str, Any], claim: Claim, reason: str) -> None:
        return None

    await link.command("SET", "arq:job:t/bad", b"{")
    await link.command("ZADD", KEYS.queue("tools").queue, 1, "t/bad")

    async with running(make_worker(link, [job_function(notes.wait, name="x")], on_dead=not_mine)):
        result = await _result(link, "t/bad")

    assert result["r"].type_name == "BadPayload"


async def test_a_job_that_cost_three_workers_is_dead(link: Link, queue: QueueClient, notes: Notes):
    job_id = await queue.enqueue("tools", "note", [1])
    names = KEYS.queue("tools")
    await link.command("HSET", names.lapses, str(job_id), 2)
    await link.command("HSET", names.tokens, str(job_id), "gone:1")
    await link.command("ZADD", names.claims, 1, str(job_id))

    async with running(make_worker(link, [job_function(notes.note, name="note")])):
        result = await _result(link, str(job_id))

    assert "3 workers were lost" in result["r"].message
    assert notes.seen == []


@pytest.mark.parametrize("before", [2 * POISON - 1, 2 * POISON])
async def test_a_job_that_cannot_settle_itself_is_given_up_at_last(
    link: Link, queue: QueueClient, notes: Notes, before: int
):
    async def settle(ctx: dict[str, Any], claim: Claim, reason: str) -> Released:
        notes.seen.append(reason)
        await link.run("finish", [claim.queue], [claim.job_id, claim.token, "", 1])
        return RELEASED

    job_id = str(await queue.enqueue("tools", "note", [1]))
    names = KEYS.queue("tools")
    await link.command("HSET", names.lapses, job_id, before)
    await link.command("HSET", names.tokens, job_id, "gone:1")
    await link.command("ZADD", names.claims, 1, job_id)
    function = job_function(notes.note, name="note", settles_itself=True)

    async with running(make_worker(link, [function], on_dead=settle)):
        await _gone(queue)

    assert notes.seen == [1 if before < 2 * POISON else "worker_lost"]


async def test_a_waiting_job_gives_its_slot_to_another(link: Link, queue: QueueClient):
    seen: list[str] = []
    go_on = asyncio.Event()

    async def wait(ctx: dict[str, Any]) -> None:
        async with ctx["claim"].slot.freed():
            await go_on.wait()
        seen.append("waited")

    async def answer(ctx: dict[str, Any]) -> None:
        seen.append("answered")
        go_on.set()

    functions = [job_function(wait, name="wait"), job_function(answer, name="answer")]
    async with running(make_worker(link, functions, concurrency=1)):
        await queue.enqueue("tools", "wait")
        await queue.enqueue("tools", "answer")
        await _gone(queue)

    assert seen == ["answered", "waited"]


async def test_background_work_leaves_slots_free_and_still_gets_its_share(
    link: Link, queue: QueueClient, notes: Notes
):
    for number in range(20):
        await queue.enqueue("runs:batch", "wait", [number])
    worker = make_worker(
        link, [job_function(notes.wait, name="wait")], "runs", "runs:batch", concurrency=10
    )
    async with running(worker):
        await notes.has_seen(8)
        for number in (100, 101):
            await queue.enqueue("runs", "wait", [number])
        await notes.has_seen(10)
        assert {100, 101} <= set(notes.seen)
        notes.go_on.set()
        await _gone(queue, "runs:batch")


async def test_a_cron_job_runs_on_its_second_once_for_two_workers(link: Link):
    seen: list[int] = []

    async def tick(ctx: dict[str, Any]) -> None:
        seen.append(ctx["score"] // 1000)

    every_second = set(range(60))
    workers = [
        make_worker(link, [], cron_jobs=[cron(tick, second=every_second, name="tick")])
        for _ in range(2)
    ]
    async with running(*workers):
        await wait_until(lambda: len(seen) >= 2, for_="two seconds")

    assert len(seen) == len(set(seen))


async def test_a_worker_tells_of_itself_and_leaves(link: Link, queue: QueueClient, notes: Notes):
    worker = make_worker(link, [job_function(notes.note, name="note")])
    async with running(worker):
        await _registered(link, 1)
        record = await link.command("GET", KEYS.worker(worker.worker_id))
        health = await link.command("GET", KEYS.queue("tools").queue + ":health-check")
        assert b'"slots": 10' in record
        assert b"j_ongoing=0" in health

    assert await link.command("ZCARD", KEYS.workers("tools")) == 0
    assert await link.command("EXISTS", KEYS.worker(worker.worker_id)) == 0


async def test_a_start_up_hook_that_fails_ends_the_worker(link: Link, notes: Notes):
    async def fail(ctx: dict[str, Any]) -> None:
        raise LookupError("no such application")

    worker = make_worker(link, [job_function(notes.note, name="note")], on_startup=fail)

    with pytest.raises(LookupError, match="no such application"):
        await worker.main()


async def test_hooks_fill_the_context_and_clean_it_up(link: Link, queue: QueueClient):
    seen: list[Any] = []

    async def start(ctx: dict[str, Any]) -> None:
        ctx["resources"] = "tools of the trade"

    async def stop(ctx: dict[str, Any]) -> None:
        seen.append("closed")

    async def look(ctx: dict[str, Any]) -> None:
        seen.append(ctx["resources"])

    functions = [job_function(look, name="look")]
    async with running(make_worker(link, functions, on_startup=start, on_shutdown=stop)):
        await queue.enqueue("tools", "look")
        await _gone(queue)

    assert seen == ["tools of the trade", "closed"]


async def test_a_stopped_worker_gives_its_jobs_back_in_their_place(
    link: Link, queue: QueueClient, notes: Notes
):
    first = await queue.enqueue("tools", "wait", [1])
    async with running(make_worker(link, [job_function(notes.wait, name="wait")], concurrency=1)):
        await notes.has_seen(1)
        await queue.enqueue("tools", "wait", [2])

    assert await link.command("ZRANGE", KEYS.queue("tools").queue, 0, 0) == [str(first).encode()]
    assert await link.command("GET", f"arq:retry:{first}") == b"0"
    assert await link.command("EXISTS", KEYS.queue("tools").claims) == 0


async def test_a_job_may_finish_while_its_worker_drains(link: Link, queue: QueueClient):
    seen: list[str] = []

    async def finish(ctx: dict[str, Any]) -> None:
        seen.append("begun")
        await ctx["lifecycle"].drained()
        seen.append("finished")

    told = settings(tool_drain=timedelta(seconds=5))
    worker = make_worker(link, [job_function(finish, name="finish")], told=told)
    async with running(worker):
        await queue.enqueue("tools", "finish")
        await wait_until(lambda: seen == ["begun"], for_="the job to begin")

    assert seen == ["begun", "finished"]
    assert await queue.depth("tools") == 0


async def test_a_second_stop_is_at_once(link: Link, queue: QueueClient, notes: Notes):
    told = settings(tool_drain=timedelta(seconds=60))
    worker = make_worker(link, [job_function(notes.wait, name="wait")], told=told)
    owner = Owner()
    task = owner.start(worker.main(), name="worker")
    await queue.enqueue("tools", "wait")
    await notes.has_seen(1)

    worker.stop()
    worker.stop()
    await wait_until(task.done, for_="the worker to end")

    assert task.result() is None
    assert await queue.depth("tools") == 1


async def test_a_job_that_swallows_its_cancellation_is_given_back_all_the_same(
    link: Link, queue: QueueClient, notes: Notes
):
    async def stubborn(ctx: dict[str, Any]) -> None:
        notes.seen.append("begun")
        while not notes.go_on.is_set():
            try:
                await notes.go_on.wait()
            except asyncio.CancelledError:
                notes.seen.append("ignored")

    worker = make_worker(link, [job_function(stubborn, name="stubborn")])
    worker._draining.clean_up = timedelta(milliseconds=50)
    async with running(worker):
        await queue.enqueue("tools", "stubborn")
        await notes.has_seen(1)

    notes.go_on.set()
    assert await link.command("EXISTS", KEYS.queue("tools").claims) == 0
    assert await queue.depth("tools") == 1
