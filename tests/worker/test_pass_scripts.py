"""What the scripts of a pass do, on fakeredis and on the real server."""

import pytest

from loops.events import Custom, TextDelta
from tests.worker.passes import TENANT, USER, Hands, Pass, flush
from worker.keys import RunKeys
from worker.link import Link
from worker.run_record import RunStatus
from worker.writer import DONE


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


@pytest.fixture
async def one(hands: Hands) -> Pass:
    return await hands.drive(await hands.submit(session_id="s"))


def keys_of(one: Pass) -> RunKeys:
    return one.place.keys.run(TENANT, one.place.run_id)


async def status_of(one: Pass) -> RunStatus:
    return (await one.hands.resources.runs.load(TENANT, one.place.run_id)).status


async def test_an_append_tells_the_first_seq_and_the_logs_length(one: Pass):
    reply = await one.send("append_yields", flush(Custom("a"), Custom("b")))

    code, first, size, last = reply
    assert (code, first, last) == (DONE, 3, 4)
    assert size == int(await one.hands.field(one.place, "log_bytes") or 0) > 0


async def test_a_flush_of_nothing_appends_nothing(one: Pass):
    assert (await one.send("append_yields"))[0] == DONE

    assert await one.hands.types(one.place) == ["run.queued", "run.started"]


async def test_a_unit_is_recorded_with_what_was_yielded_before_it(one: Pass, any_link: Link):
    await one.send("append_yields", flush(opens="turn:1"))
    await any_link.command("HSET", keys_of(one).journal, "part:turn:1", "1 x")

    await one.send("record_unit", flush(TextDelta(0, "hi")), "turn:1", "record")

    assert await any_link.command("HGETALL", keys_of(one).journal) == [b"turn:1", b"record"]
    assert await one.hands.field(one.place, "open:turn:1") is None
    assert (await one.hands.types(one.place))[-1] == "text.delta"


async def test_a_call_becomes_a_job_and_is_told_in_one_script(one: Pass, any_link: Link):
    reply = await one.start_call("turn:1.0", flushed=flush(Custom("before")))

    assert reply[2:] == [b"queued", None]
    assert (await one.hands.types(one.place))[-2:] == ["custom.before", "tool.queued"]
    [call] = await one.hands.resources.runs.calls(TENANT, one.place.run_id)
    assert (call.key, call.name, call.state, call.attempts) == ("turn:1.0", "mail", "queued", 0)
    assert await one.hands.resources.queue.depth("tools") == 1
    assert b"tools" in await any_link.command("SMEMBERS", one.place.keys.queues)


async def test_a_call_is_started_once_however_often_it_is_asked_for(one: Pass, hands: Hands):
    await one.start_call("turn:1.0")
    two = await hands.take_over(one)

    reply = await two.start_call("turn:1.0")

    assert reply[2:] == [b"queued", None]
    assert (await hands.types(one.place)).count("tool.queued") == 1
    assert await hands.resources.queue.depth("tools") == 1


async def test_a_call_that_was_answered_is_not_started_and_gives_its_answer(
    one: Pass, hands: Hands
):
    await one.start_call("turn:1.0")
    tool = await hands.take_call(one.place)
    await tool.start()
    await tool.finish("sent")

    reply = await one.start_call("turn:1.0")

    assert reply[2] == b"done"
    assert b'"content":"sent"' in reply[3]
    assert await hands.resources.queue.depth("tools") == 0


async def test_a_started_call_keeps_its_turn_up_to_its_block_and_never_less(
    one: Pass, any_link: Link
):
    for block, length in ((1, 9), (2, 12), (0, 5)):
        await one.start_call(f"turn:1.{block}", part=("turn:1", f"part {length}", length))

    kept = await any_link.command("HGET", keys_of(one).journal, "part:turn:1")
    assert kept == b"12 part 12"


async def test_a_parked_run_has_no_job_no_claim_and_no_owner(one: Pass, any_link: Link):
    await one.start_call("turn:1.0")

    assert (await one.park("turn:1.0"))[0] == DONE

    assert await status_of(one) is RunStatus.WAITING
    assert await any_link.command("KEYS", f"arq:*{one.claim.job_id}") == []
    assert await one.hands.resources.queue.depth("runs") == 0
    assert await one.hands.field(one.place, "owner") is None
    assert (await one.hands.types(one.place))[-1] == "run.waiting"


async def test_an_answer_queues_a_waiting_run_once(one: Pass, hands: Hands):
    await one.start_call("turn:1.0")
    await one.start_call("turn:1.1")
    await one.park("turn:1.0", "turn:1.1")
    tools = [await hands.take_call(one.place, key) for key in ("turn:1.0", "turn:1.1")]

    for tool in tools:
        await tool.start()
        await tool.finish()

    assert await status_of(one) is RunStatus.QUEUED
    assert await hands.resources.queue.depth("runs") == 1
    two = await hands.drive(one.place)
    assert (two.begun.run.attempt, two.begun.calls["turn:1.1"]["state"]) == (1, b"done")


async def test_a_run_that_was_handed_back_goes_before_what_came_later(one: Pass, hands: Hands):
    await hands.submit()

    assert (await one.send("hand_back", None, one.claim.token, 0))[0] == DONE

    assert await status_of(one) is RunStatus.QUEUED
    assert (await hands.claim()).job_id == one.claim.job_id


async def test_a_settled_runs_status_output_and_last_event_agree(one: Pass):
    await one.send("append_yields", flush(messages=[USER]))

    await one.settle("completed", output="done", usage="null")

    run = await one.hands.resources.runs.load(TENANT, one.place.run_id)
    assert (run.status, run.output, run.is_settled) == (RunStatus.COMPLETED, "done", True)
    assert run.finished_at is not None
    assert (await one.hands.types(one.place))[-1] == "run.completed"


async def test_a_settled_run_lets_go_of_its_job_its_session_and_its_calls(
    one: Pass, hands: Hands, any_link: Link
):
    waiting = await hands.submit(session_id="s")
    await one.start_call("turn:1.0")
    await (await hands.take_call(one.place)).start()
    await one.start_call("turn:1.1")

    *_, stopping = await one.settle("failed")

    assert stopping == [b"turn:1.0"]
    assert await any_link.command("KEYS", f"arq:*{one.claim.job_id}") == []
    assert (await hands.resources.sessions.load(TENANT, "s")).owner == waiting.run_id
    calls = await hands.resources.runs.calls(TENANT, one.place.run_id)
    assert [call.state for call in calls] == ["cancelled", "cancelled"]
    job = one.place.keys.call_job(TENANT, one.place.run_id, "turn:1.0")
    assert await any_link.command("ZSCORE", "arq:abort", job) is not None
    assert await hands.resources.queue.depth("tools") == 1


@pytest.mark.parametrize(("status", "is_kept"), [("completed", 0), ("failed", 1), ("cancelled", 1)])
async def test_the_journal_of_a_run_that_did_not_complete_is_kept(
    one: Pass, any_link: Link, status: str, is_kept: int
):
    await one.send("record_unit", None, "step:a:0", "1")

    await one.settle(status)

    assert await any_link.command("EXISTS", keys_of(one).journal) == is_kept
    assert await any_link.command("EXISTS", keys_of(one).yields) == 0


async def test_a_settled_run_is_kept_for_its_retention(one: Pass, any_link: Link):
    live = await any_link.command("PTTL", one.place.record)

    await one.settle()

    retention = int(await one.hands.field(one.place, "retention") or 0)
    left = await any_link.command("PTTL", one.place.record)
    assert retention - 60_000 < left <= retention < live


@pytest.mark.parametrize(("token", "settles"), [("own", 1), ("other", 0), ("", 0)])
async def test_a_run_that_is_claimed_is_settled_by_its_claims_holder_alone(
    hands: Hands, any_link: Link, token: str, settles: int
):
    place = await hands.submit()
    claim = await hands.claim()
    shown = claim.token if token == "own" else token
    told = '[{"type":"run.failed","data":{}}]'

    arguments = [claim.queue, claim.job_id, shown, "failed", told, "error", "{}"]
    done = await any_link.run("settle_unowned", [place.record], arguments)

    assert done == settles
    assert (await hands.types(place))[-1] == ("run.failed" if settles else "run.queued")
