"""The scripts of calls, on fakeredis and on the real server: begun once, answered once."""

from typing import Any

import orjson
import pytest

from loops.messages import ToolResult
from tests.waiting import wait_until
from tests.worker.passes import TENANT, Hands, Pass, ToolHand
from worker.link import Link
from worker.run_record import CallRecord
from worker.writer import DONE, GO_ON, LEFT


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


@pytest.fixture
async def one(hands: Hands) -> Pass:
    return await hands.drive(await hands.submit())


async def call_of(one: Pass) -> CallRecord:
    [call] = await one.hands.resources.runs.calls(TENANT, one.place.run_id)
    return call


async def result_of(one: Pass, key: str = "turn:1.0") -> Any:
    stored = await one.hands.link.command("HGET", one.place.calls, f"{key}|result")
    return None if stored is None else ToolResult.decode(stored).content


async def called(one: Pass, **how: Any) -> ToolHand:
    """Start a call and claim its job."""
    await one.start_call("turn:1.0", **how)
    return await one.hands.take_call(one.place)


async def lost(tool: ToolHand) -> ToolHand:
    """Let the worker of the call die, and another one claim its job."""
    await tool.hands.lapse(tool.claim)
    return await tool.hands.take_call(tool.place, worker_id="v")


async def test_a_call_is_begun_with_all_that_its_worker_needs(one: Pass):
    tool = await called(one)

    code, call, attempt, agent, session, run, origin = await tool.start()

    assert (code, attempt, agent, run.decode()) == (1, 1, b"triage", one.place.run_id)
    assert origin == b""
    assert session.startswith(b"ses_")
    assert orjson.loads(call)["name"] == "mail"
    started = (await one.hands.log(one.place))[-1]
    assert (started.type, started.data) == (
        "tool.started",
        {"call": "turn:1.0", "worker": "w", "pid": 7, "attempt": 1},
    )
    assert (await call_of(one)).state == "started"


async def test_a_begin_whose_reply_was_lost_can_be_asked_again(one: Pass):
    tool = await called(one)
    first = await tool.start()

    assert await tool.start() == first

    assert (await one.hands.types(one.place)).count("tool.started") == 1
    assert (await call_of(one)).attempts == 1


async def test_a_stale_token_begins_and_answers_nothing(one: Pass):
    tool = await called(one)
    await lost(tool)

    assert await tool.start() == [0]
    assert await tool.finish() == 0

    assert (await call_of(one)).state == "queued"
    assert await result_of(one) is None


async def test_a_result_is_recorded_once_and_its_job_is_gone(one: Pass):
    tool = await called(one)
    await tool.start()

    assert await tool.finish("sent") == 1
    assert await tool.finish("again") == 0

    assert (await call_of(one)).state == "done"
    assert await result_of(one) == "sent"
    assert await one.hands.resources.queue.depth("tools") == 0


async def test_a_result_whose_reply_was_lost_is_recorded_still(one: Pass):
    tool = await called(one)
    await tool.start()
    await tool.finish("sent")
    told = await one.hands.types(one.place)

    assert await tool.finish("sent") == 1

    assert await tool.finish("sent", state="cancelled") == 0
    assert await one.hands.types(one.place) == told


async def test_a_result_equal_to_what_another_worker_said_is_not_the_stale_ones(one: Pass):
    tool = await called(one, again=True)
    await tool.start()
    other = await lost(tool)
    await other.start()
    await other.finish("sent")

    assert await tool.finish("sent") == 0


async def test_a_call_that_begins_is_known_to_some_worker(one: Pass):
    tool = await called(one)
    noted = one.hands.resources.keys.queue("tools").unknown(tool.claim.job_id)
    await one.hands.link.command("SET", noted, 1)

    await tool.start()

    assert await one.hands.link.command("EXISTS", noted) == 0


async def test_a_running_loop_is_told_of_the_result(one: Pass):
    tool = await called(one)
    await tool.start()
    heard: list[bytes] = []
    async with one.hands.link.client.pubsub() as subscription:
        await subscription.subscribe(one.place.keys.owner("w"))
        await subscription.get_message(timeout=1)

        await tool.finish("sent")

        async def is_told() -> bool:
            message = await subscription.get_message(ignore_subscribe_messages=True, timeout=0.05)
            heard.extend([message["data"]] if message else [])
            return bool(heard)

        await wait_until(is_told, for_="the loop to be told")
    job, kind, key, value = heard[0].split(b"\n", 3)
    assert (job.decode(), kind, key) == (one.claim.job_id, b"call", b"turn:1.0")
    assert ToolResult.decode(value).content == "sent"


async def test_a_started_call_that_may_not_run_again_is_lost_with_its_worker(one: Pass):
    tool = await called(one)
    await tool.start()

    other = await lost(tool)

    assert await other.start() == [-2]
    assert (await call_of(one)).state == "lost"
    assert await result_of(one) == "l"
    assert (await one.hands.types(one.place))[-1] == "tool.lost"
    assert await tool.finish("sent") == 0
    assert await result_of(one) == "l"


async def test_a_started_call_that_may_run_again_does(one: Pass):
    tool = await called(one, again=True)
    await tool.start()

    other = await lost(tool)

    code, _, attempt, *_ = await other.start()
    assert (code, attempt) == (1, 2)
    assert await tool.finish("stale") == 0
    assert await other.finish("fresh") == 1
    assert await result_of(one) == "fresh"


async def test_a_call_whose_worker_died_before_it_began_runs(one: Pass):
    other = await lost(await called(one))

    assert (await other.start())[:3:2] == [1, 1]


async def test_a_call_that_cost_three_workers_is_given_up(one: Pass):
    tool = await called(one, again=True)
    for _ in range(2):
        tool = await lost(tool)
        assert (await tool.start())[0] == 1

    tool = await lost(tool)

    assert await tool.start() == [-3]
    assert (await call_of(one)).state == "done"
    assert await result_of(one) == "p"
    assert await one.hands.resources.queue.depth("tools") == 0


async def test_nothing_is_begun_for_a_run_that_has_ended(one: Pass):
    tool = await called(one)
    await one.settle()

    assert (await tool.start())[0] in {0, -1}

    assert (await one.hands.types(one.place))[-1] == "run.completed"


async def test_a_result_for_a_run_that_has_ended_comes_too_late(one: Pass):
    tool = await called(one)
    await tool.start()
    await one.settle()

    assert await tool.finish() == -1

    assert (await one.hands.types(one.place))[-1] == "run.completed"
    assert await result_of(one) is None
    assert await one.hands.resources.queue.depth("tools") == 0


async def progress(tool: ToolHand, *values: Any, number: int = 1) -> int:
    told = [{"type": "tool.progress", "data": {"call": tool.key, "value": v}} for v in values]
    claim = tool.claim
    arguments = [claim.queue, claim.job_id, claim.token, tool.key, number]
    code: int = await tool.hands.link.run(
        "progress_tool", [tool.place.record], [*arguments, len(told), orjson.dumps(told)]
    )
    return code


async def test_what_a_tool_tells_is_appended_while_it_works(one: Pass):
    tool = await called(one)
    assert await progress(tool, 0) == 0
    await tool.start()

    assert await progress(tool, 1, 2) == 1

    assert [e.data["value"] for e in (await one.hands.log(one.place))[-2:]] == [1, 2]
    await tool.finish()
    assert await progress(tool, 3) == 0
    assert (await one.hands.types(one.place)).count("tool.progress") == 2


async def test_what_a_tool_tells_twice_because_a_reply_was_lost_is_appended_once(one: Pass):
    tool = await called(one, again=True)
    await tool.start()
    assert await progress(tool, "a", number=1) == 1
    assert await progress(tool, "a", number=1) == 1
    assert await progress(tool, "b", number=2) == 1

    other = await lost(tool)
    await other.start()
    assert await progress(other, "c", number=1) == 1

    events = await one.hands.log(one.place)
    told = [event.data["value"] for event in events if event.type == "tool.progress"]
    assert told == ["a", "b", "c"]


async def test_a_stale_claim_tells_nothing(one: Pass):
    tool = await called(one, again=True)
    await tool.start()
    await lost(tool)

    assert await progress(tool, 1) == 0

    assert "tool.progress" not in await one.hands.types(one.place)


async def withdraw(one: Pass, key: str = "turn:1.0") -> list[Any]:
    result = ToolResult(key, "call_0", "mail", "nobody came", is_error=True)
    reply: list[Any] = await one.hands.link.run(
        "withdraw_call", [one.place.record], [one.begun.epoch, key, result.encode()]
    )
    return reply


async def test_a_call_that_nobody_began_can_be_withdrawn_and_never_starts(one: Pass):
    await one.start_call("turn:1.0")

    code, result = await withdraw(one)

    assert (code, ToolResult.decode(result).content) == (DONE, "nobody came")
    assert (await call_of(one)).state == "cancelled"
    assert await one.hands.resources.queue.depth("tools") == 0


async def test_a_withdrawn_call_whose_job_was_claimed_cannot_be_begun(one: Pass):
    tool = await called(one)

    assert (await withdraw(one))[0] == DONE

    assert (await tool.start())[0] in {0, -1}
    assert "tool.started" not in await one.hands.types(one.place)


async def test_a_call_that_has_begun_is_not_withdrawn(one: Pass):
    tool = await called(one)
    await tool.start()

    assert await withdraw(one) == [GO_ON, None]

    assert await tool.finish("sent") == 1


async def test_withdrawing_an_answered_call_gives_its_answer(one: Pass):
    tool = await called(one)
    await tool.start()
    await tool.finish("sent")

    code, result = await withdraw(one)

    assert (code, ToolResult.decode(result).content) == (DONE, "sent")


async def test_a_stale_pass_withdraws_nothing(one: Pass):
    await one.start_call("turn:1.0")
    await one.hands.take_over(one)

    assert (await withdraw(one))[0] == LEFT

    assert (await call_of(one)).state == "queued"
