"""What the scripts of a pass refuse, on fakeredis and on the real server: it changes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from loops.events import Custom
from tests.worker.passes import ASSISTANT, TENANT, USER, Hands, Pass, flush
from worker.link import Link
from worker.writer import DIVERGED, DONE, GAP, GO_ON, LEFT, REPEATED

Script = Callable[..., Awaitable[Any]]

ASKED = ('"label":"ship"', "{}", '[{"type":"hook.opened","data":{"label":"ship"}}]')
"""What is told and kept of a hook."""

SCRIPTS: dict[str, Callable[[Pass, dict[str, Any]], Awaitable[Any]]] = {
    "append_yields": lambda one, how: one.send("append_yields", **how),
    "record_unit": lambda one, how: one.send("record_unit", how.pop("f", None), "k", "1", **how),
    "start_call": lambda one, how: one.start_call("turn:1.0", **how),
    "fail_turn": lambda one, how: one.send("fail_turn", how.pop("f", None), "turn:1", **how),
    "hand_back": lambda one, how: one.send(
        "hand_back", how.pop("f", None), one.claim.token, 0, **how
    ),
    "open_child": lambda one, how: one.open_child(**how),
    "open_hook": lambda one, how: one.send(
        "open_hook", how.pop("f", None), "hook:ship:0", "", b"", 0, "ship", 60_000, *ASKED, **how
    ),
    "take_steers": lambda one, how: one.send("take_steers", how.pop("f", None), "steer:", **how),
    "park": lambda one, how: one.park("turn:1.0", **how),
    "settle_run": lambda one, how: one.settle(messages=how.pop("messages", ()), **how),
}
each_script = pytest.mark.parametrize("script", SCRIPTS)


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


@pytest.fixture
async def one(hands: Hands) -> Pass:
    return await hands.drive(await hands.submit(session_id="s"))


async def send(one: Pass, script: str, **how: Any) -> Any:
    return await SCRIPTS[script](one, how)


async def dump(link: Link) -> list[object]:
    """Return all that stands in the server."""
    names: list[bytes] = sorted(await link.command("KEYS", "*"))
    return [(name, await link.command("DUMP", name)) for name in names]


@each_script
async def test_a_pass_that_another_has_followed_is_refused(
    one: Pass, hands: Hands, any_link: Link, script: str
):
    await hands.take_over(one)
    before = await dump(any_link)

    assert (await send(one, script))[0] == LEFT

    assert await dump(any_link) == before


@each_script
async def test_a_pass_that_another_has_followed_is_not_told_that_its_script_was_done(
    one: Pass, hands: Hands, any_link: Link, script: str
):
    two = await hands.take_over(one)
    for _ in range(3):
        await two.send("append_yields")
    before = await dump(any_link)

    assert (await send(one, script))[0] == LEFT

    assert await dump(any_link) == before


@each_script
async def test_a_pass_of_a_settled_run_is_refused(
    one: Pass, hands: Hands, any_link: Link, script: str
):
    claim = one.claim
    await any_link.run(
        "settle_unowned",
        [one.place.record],
        [claim.queue, claim.job_id, claim.token, "failed", '[{"type":"run.failed","data":{}}]'],
    )
    before = await dump(any_link)

    assert (await send(one, script))[0] == LEFT

    assert await dump(any_link) == before


@each_script
async def test_a_pass_of_a_run_that_was_deleted_is_refused(one: Pass, any_link: Link, script: str):
    await one.settle()
    await one.hands.resources.runs.delete(TENANT, one.place.run_id)
    before = await dump(any_link)

    assert (await send(one, script))[0] == LEFT

    assert await dump(any_link) == before


@each_script
async def test_a_script_ahead_of_the_one_before_it_is_refused(
    one: Pass, any_link: Link, script: str
):
    await one.send("append_yields", flush(Custom("note")))
    before = await dump(any_link)

    assert (await send(one, script, number=3))[0] == GAP

    assert await dump(any_link) == before


@each_script
async def test_a_script_whose_number_was_done_is_not_done_again(
    one: Pass, any_link: Link, script: str
):
    await send(one, script)
    before = await dump(any_link)

    again = await send(one, script, number=1)

    assert again[0] == REPEATED
    assert await dump(any_link) == before


@pytest.mark.parametrize("script", sorted(set(SCRIPTS) - {"start_call", "park"}))
async def test_messages_for_a_session_that_the_run_does_not_own_are_refused(
    one: Pass, any_link: Link, script: str
):
    await any_link.command("HSET", one.place.keys.session(TENANT, "s").record, "owner", "run_x")
    before = await dump(any_link)
    name = {"append_yields": "flushed", "settle_run": "messages"}.get(script, "f")
    told = [USER] if script == "settle_run" else flush(messages=[USER])

    assert (await send(one, script, **{name: told}))[0] == LEFT

    assert await dump(any_link) == before


async def test_a_slot_takes_the_same_message_again(one: Pass, hands: Hands):
    await one.send("append_yields", flush(messages=[USER, ASSISTANT]))
    two = await hands.take_over(one)

    again = await two.send("append_yields", flush(messages=[USER]))
    rest = await two.send("append_yields", flush(slot=1, messages=[ASSISTANT, USER]))

    assert (again[0], rest[0]) == (DONE, DONE)
    stored = await hands.resources.sessions.messages(TENANT, "s")
    assert [each.message for each in stored] == [USER, ASSISTANT, USER]


async def test_a_slot_that_holds_another_message_is_a_divergence(one: Pass, hands: Hands):
    await one.send("append_yields", flush(messages=[USER, ASSISTANT]))
    two = await hands.take_over(one)
    events = len(await hands.log(one.place))

    differs = await two.send("append_yields", flush(Custom("note"), slot=1, messages=[USER]))

    assert differs[:2] == [DIVERGED, 1]
    stored = await hands.resources.sessions.messages(TENANT, "s")
    assert [each.message for each in stored] == [USER, ASSISTANT]
    assert len(await hands.log(one.place)) == events


async def test_a_slot_beyond_the_next_one_is_a_divergence(one: Pass, hands: Hands):
    differs = await one.send("append_yields", flush(slot=1, messages=[USER]))

    assert differs[:2] == [DIVERGED, 1]
    assert (await hands.resources.sessions.load(TENANT, "s")).length == 0


async def test_a_divergence_whose_reply_was_lost_is_told_again(one: Pass, hands: Hands):
    await one.send("append_yields", flush(messages=[USER]))
    two = await hands.take_over(one)
    told = flush(messages=[ASSISTANT])
    assert (await two.send("record_unit", told, "turn:1", "1"))[0] == DIVERGED

    again = await two.send("record_unit", told, "turn:1", "1", number=1)

    assert again[:2] == [DIVERGED, 0]


async def test_after_a_divergence_the_pass_can_still_settle_its_run(one: Pass, hands: Hands):
    await one.send("append_yields", flush(messages=[USER]))
    two = await hands.take_over(one)
    await two.send("append_yields", flush(messages=[ASSISTANT]))

    assert (await two.settle("failed"))[0] == DONE

    assert (await hands.types(one.place))[-1] == "run.failed"


async def test_a_hand_back_needs_the_claim_as_well(one: Pass, hands: Hands):
    one.claim.token = "w:999"

    assert (await one.send("hand_back", None, one.claim.token, 0))[0] == LEFT

    assert (await hands.resources.runs.load(TENANT, one.place.run_id)).status == "running"


async def test_a_run_that_somebody_cancels_is_not_parked(one: Pass, hands: Hands):
    await hands.resources.runs.cancel(TENANT, one.place.run_id)

    assert (await one.park())[0] == GO_ON

    assert (await hands.resources.runs.load(TENANT, one.place.run_id)).status == "running"


async def test_a_run_is_not_parked_when_what_it_waits_for_is_answered(one: Pass, hands: Hands):
    await one.start_call("turn:1.0")
    tool = await hands.take_call(one.place)
    await tool.start()
    await tool.finish()

    assert (await one.park("turn:1.0"))[0] == GO_ON

    assert (await hands.resources.runs.load(TENANT, one.place.run_id)).status == "running"


async def test_a_refused_park_whose_reply_was_lost_is_refused_again(one: Pass, hands: Hands):
    await hands.resources.runs.cancel(TENANT, one.place.run_id)
    assert (await one.park())[0] == GO_ON

    assert (await one.park(number=1))[0] == GO_ON
