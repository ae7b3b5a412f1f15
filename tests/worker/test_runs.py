"""The store of runs, on fakeredis and on the real server: accept, look up, list, forget."""

from collections.abc import Sequence
from datetime import timedelta
from time import time
from typing import Any

import pytest

from loops.errors import (
    IdempotencyConflict,
    QueueFull,
    SessionBusy,
    StillRunning,
    UnknownRun,
)
from tests.waiting import wait_until
from tests.worker.passes import TENANT, USER, Hands
from worker.keys import NAME
from worker.link import Link
from worker.new_run import IDEMPOTENCY, NewRun
from worker.payloads import decode_job
from worker.run_record import RunStatus


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


def new(**told: Any) -> NewRun:
    return NewRun("triage", [USER], **told)


async def test_an_accepted_run_is_on_record_in_the_log_and_in_the_queue(hands: Hands):
    created = await hands.resources.runs.create(TENANT, new(metadata={"a": 1}))

    run = await hands.resources.runs.load(TENANT, created.run_id)
    assert (run.id, run.status, run.agent) == (created.run_id, RunStatus.QUEUED, "triage")
    assert (run.session_id, run.attempt, run.ordinal) == (created.session_id, 0, 1)
    assert (run.metadata, run.last_seq, run.output) == ({"a": 1}, 1, None)
    [event] = await hands.resources.log.read(hands.resources.keys.run(TENANT, run.id))
    assert (event.seq, event.type, event.data) == (1, "run.queued", {"agent": "triage"})
    assert await hands.resources.queue.depth("runs") == 1


async def test_a_runs_job_names_the_run_and_holds_nothing_of_it(hands: Hands, any_link: Link):
    place = await hands.submit()

    job = hands.resources.keys.run_job(TENANT, place.run_id)
    payload = decode_job(await any_link.command("GET", f"arq:job:{job}"))

    assert (payload.function, payload.arguments) == ("drive_run", [TENANT, place.run_id, "triage"])


async def test_ids_are_ours_and_cannot_be_guessed(hands: Hands):
    one = await hands.resources.runs.create(TENANT, new())
    two = await hands.resources.runs.create(TENANT, new())

    assert one.run_id != two.run_id
    assert one.session_id != two.session_id
    for name in (one.run_id, one.session_id):
        assert NAME.fullmatch(name)
        assert len(name.partition("_")[2]) == 32


async def test_a_run_without_a_timeout_has_the_configured_one(any_link: Link):
    hands = Hands(any_link, {"run_timeout": timedelta(minutes=7)})

    default = await hands.resources.runs.create(TENANT, new())
    own = await hands.resources.runs.create(TENANT, new(timeout=timedelta(seconds=5)))

    loaded = [await hands.resources.runs.load(TENANT, one.run_id) for one in (default, own)]
    assert [run.timeout for run in loaded] == [timedelta(minutes=7), timedelta(seconds=5)]


async def test_the_same_request_again_is_the_same_run(hands: Hands):
    runs = hands.resources.runs
    first = await runs.create(TENANT, new(idempotency=("key", "body")))

    again = await runs.create(TENANT, new(idempotency=("key", "body")))

    assert (again.run_id, again.session_id) == (first.run_id, first.session_id)
    assert (first.is_new, again.is_new) == (True, False)
    assert await hands.resources.queue.depth("runs") == 1


async def test_another_request_under_the_same_key_is_refused(hands: Hands):
    runs = hands.resources.runs
    first = await runs.create(TENANT, new(idempotency=("key", "body")))

    with pytest.raises(IdempotencyConflict, match=first.run_id):
        await runs.create(TENANT, new(idempotency=("key", "other body")))

    assert await hands.resources.queue.depth("runs") == 1


@pytest.mark.parametrize("body", ["body", "other"])
async def test_a_key_whose_run_was_deleted_is_as_good_as_new(hands: Hands, body: str):
    runs = hands.resources.runs
    first = await runs.create(TENANT, new(idempotency=("key", "body")))
    await runs.cancel(TENANT, first.run_id)
    await runs.delete(TENANT, first.run_id)

    second = await runs.create(TENANT, new(idempotency=("key", body)))
    again = await runs.create(TENANT, new(idempotency=("key", body)))

    assert second.is_new
    assert second.run_id != first.run_id
    assert (again.run_id, again.is_new) == (second.run_id, False)


async def test_a_key_belongs_to_its_tenant_and_is_forgotten_after_a_day(
    hands: Hands, any_link: Link
):
    runs = hands.resources.runs
    first = await runs.create(TENANT, new(idempotency=("key", "body")))

    other = await runs.create("other", new(idempotency=("key", "body")))

    assert other.run_id != first.run_id
    left = await any_link.command("PTTL", hands.resources.keys.idempotency(TENANT, "key"))
    assert 0 < left <= IDEMPOTENCY / timedelta(milliseconds=1)


async def test_a_second_run_of_a_session_waits_for_the_first(hands: Hands):
    first = await hands.resources.runs.create(TENANT, new(session_id="s"))

    second = await hands.resources.runs.create(TENANT, new(session_id="s"))

    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (first.run_id, 1)
    assert await hands.resources.queue.depth("runs") == 1
    run = await hands.resources.runs.load(TENANT, second.run_id)
    assert (run.status, run.ordinal) == (RunStatus.QUEUED, 2)


async def test_a_second_run_of_a_session_can_be_refused(hands: Hands):
    first = await hands.resources.runs.create(TENANT, new(session_id="s"))

    with pytest.raises(SessionBusy) as refused:
        await hands.resources.runs.create(TENANT, new(session_id="s", on_conflict="reject"))

    assert refused.value.run_id == first.run_id
    assert await hands.resources.sessions.runs(TENANT, "s") == [first.run_id]


async def test_a_full_queue_refuses_and_keeps_nothing_of_the_run(any_link: Link):
    hands = Hands(any_link, {"queue_depth": 2})
    for _ in range(2):
        await hands.submit()
    before = sorted(await any_link.command("KEYS", "*"))

    with pytest.raises(QueueFull) as refused:
        await hands.resources.runs.create(TENANT, new(session_id="s", idempotency=("k", "b")))

    assert refused.value.retry_after > timedelta(0)
    assert sorted(await any_link.command("KEYS", "*")) == before


async def test_a_sessions_line_has_a_limit_too(any_link: Link):
    hands = Hands(any_link, {"queue_depth": 2})
    for _ in range(3):
        await hands.submit(session_id="s")

    with pytest.raises(QueueFull, match="session s holds 2 runs"):
        await hands.submit(session_id="s")

    assert (await hands.resources.sessions.load(TENANT, "s")).waiting == 2
    assert len(await hands.resources.sessions.runs(TENANT, "s")) == 3


async def test_a_session_whose_run_is_gone_is_free(hands: Hands, any_link: Link):
    gone = await hands.submit(session_id="s")
    await any_link.command("DEL", gone.record)

    created = await hands.resources.runs.create(TENANT, new(session_id="s", on_conflict="reject"))

    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (created.run_id, 0)
    assert await hands.resources.queue.depth("runs") == 2


async def test_a_session_whose_run_is_gone_goes_to_the_first_in_line(hands: Hands, any_link: Link):
    gone, first = [await hands.submit(session_id="s") for _ in range(2)]
    await any_link.command("DEL", gone.record)

    second = await hands.submit(session_id="s")

    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (first.run_id, 1)
    await hands.resources.runs.cancel(TENANT, first.run_id)
    assert (await hands.resources.sessions.load(TENANT, "s")).owner == second.run_id


async def test_a_run_that_leaves_the_line_of_a_gone_run_lets_the_next_one_in(
    hands: Hands, any_link: Link
):
    gone, first, second = [await hands.submit(session_id="s") for _ in range(3)]
    await any_link.command("DEL", gone.record)

    await hands.resources.runs.cancel(TENANT, first.run_id)

    session = await hands.resources.sessions.load(TENANT, "s")
    assert (session.owner, session.waiting) == (second.run_id, 0)


async def test_unknown_and_foreign_runs_are_the_same(hands: Hands):
    place = await hands.submit()
    runs = hands.resources.runs

    for tenant, run_id in ((TENANT, "run_none"), ("other", place.run_id)):
        for ask in (runs.load, runs.calls, runs.cancel, runs.delete):
            with pytest.raises(UnknownRun):
                await ask(tenant, run_id)


async def _submit_in_order(hands: Hands, *agents: str) -> list[str]:
    ids: list[str] = []
    for agent in agents:
        place = await hands.submit(agent)
        ids.append(place.run_id)
        created = (await hands.resources.runs.load(TENANT, place.run_id)).created_at
        await wait_until(lambda at=created: time() > at.timestamp() + 0.001, for_="the next ms")
    return ids


async def test_runs_are_listed_newest_first_in_pages(hands: Hands):
    ids = await _submit_in_order(hands, *"abcde")
    runs, pages, before = hands.resources.runs, [], None

    while True:
        page = await runs.page(TENANT, before=before, limit=2)
        pages.append([run.id for run in page.runs])
        before = page.next
        if before is None:
            break

    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


async def test_a_list_can_be_filtered_by_agent_and_by_status(hands: Hands):
    ids = await _submit_in_order(hands, "a", "b", "a")
    await hands.resources.runs.cancel(TENANT, ids[0])
    runs = hands.resources.runs

    of_a = await runs.page(TENANT, agent="a")
    cancelled = await runs.page(TENANT, status=RunStatus.CANCELLED)
    both = await runs.page(TENANT, agent="a", status=RunStatus.QUEUED)

    assert [run.id for run in of_a.runs] == [ids[2], ids[0]]
    assert [run.id for run in cancelled.runs] == [ids[0]]
    assert [run.id for run in both.runs] == [ids[2]]


async def test_a_list_is_that_of_one_tenant(hands: Hands):
    await hands.submit()

    assert (await hands.resources.runs.page("other")).runs == []


async def test_a_page_after_what_is_not_there_is_refused(hands: Hands):
    with pytest.raises(UnknownRun):
        await hands.resources.runs.page(TENANT, before="run_none")


async def test_a_run_that_has_not_ended_cannot_be_deleted(hands: Hands):
    place = await hands.submit()

    with pytest.raises(StillRunning):
        await hands.resources.runs.delete(TENANT, place.run_id)

    assert (await hands.resources.runs.load(TENANT, place.run_id)).status == RunStatus.QUEUED


async def test_a_deleted_run_leaves_nothing(hands: Hands, any_link: Link):
    place = await hands.submit()
    await hands.resources.runs.cancel(TENANT, place.run_id)

    await hands.resources.runs.delete(TENANT, place.run_id)

    assert await any_link.command("KEYS", f"*{place.run_id}*") == []
    with pytest.raises(UnknownRun):
        await hands.resources.runs.load(TENANT, place.run_id)
    assert (await hands.resources.runs.page(TENANT)).runs == []


async def test_all_keys_of_a_run_end_at_the_same_instant(hands: Hands, any_link: Link):
    place = await hands.submit()
    one = await hands.drive(place)
    await one.start_call()

    names = await any_link.command("KEYS", f"{place.record}*")
    ends = {await any_link.command("PEXPIRETIME", name) for name in names}

    assert len(names) >= 4
    assert len(ends) == 1
    assert min(ends) > time() * 1000


def test_the_contract_ran_on_both_servers(request: pytest.FixtureRequest):
    names: Sequence[str] = [item.name for item in request.session.items]

    assert any("[fake]" in name for name in names)
    assert any("[real]" in name for name in names)


async def test_a_filtered_page_is_full_however_rare_its_runs_are(hands: Hands):
    ids = await _submit_in_order(hands, "rare", *"bbbbb", "rare", "b")

    page = await hands.resources.runs.page(TENANT, agent="rare", limit=2)

    assert [run.id for run in page.runs] == [ids[6], ids[0]]
