"""The store of sessions, on fakeredis and on the real server."""

from datetime import timedelta
from time import time

import pytest

from loops.errors import IdempotencyConflict, InvalidInput, StillRunning, UnknownSession
from tests.waiting import wait_until
from tests.worker.passes import ASSISTANT, TENANT, USER, Hands, flush
from worker.link import Link
from worker.new_run import SESSION_RETENTION


@pytest.fixture
def hands(any_link: Link) -> Hands:
    return Hands(any_link)


async def test_a_new_session_is_empty_and_owned_by_nobody(hands: Hands):
    session = await hands.resources.sessions.create(TENANT, metadata={"a": 1})

    assert session.id.startswith("ses_")
    assert (session.length, session.owner, session.waiting) == (0, None, 0)
    assert session.metadata == {"a": 1}
    assert session.created_at == session.used_at
    assert await hands.resources.sessions.load(TENANT, session.id) == session


async def test_an_id_that_is_taken_is_refused(hands: Hands):
    await hands.resources.sessions.create(TENANT, session_id="s", metadata={"a": 1})

    with pytest.raises(InvalidInput, match="'s'"):
        await hands.resources.sessions.create(TENANT, session_id="s")

    assert (await hands.resources.sessions.load(TENANT, "s")).metadata == {"a": 1}
    assert (await hands.resources.sessions.create("other", session_id="s")).metadata == {}


async def test_unknown_and_foreign_sessions_are_the_same(hands: Hands):
    await hands.resources.sessions.create(TENANT, session_id="s")
    sessions = hands.resources.sessions

    for tenant, session_id in ((TENANT, "none"), ("other", "s")):
        for ask in (sessions.load, sessions.messages, sessions.delete):
            with pytest.raises(UnknownSession):
                await ask(tenant, session_id)


async def test_sessions_are_listed_last_used_first(hands: Hands):
    for name in "abc":
        created = await hands.resources.sessions.create(TENANT, session_id=name)
        used = created.used_at.timestamp()
        await wait_until(lambda at=used: time() > at + 0.001, for_="the next ms")
    await hands.submit(session_id="a")

    first, cursor = await hands.resources.sessions.page(TENANT, limit=2)
    second, end = await hands.resources.sessions.page(TENANT, before=cursor, limit=2)

    assert [session.id for session in (*first, *second)] == ["a", "c", "b"]
    assert (cursor, end) == ("c", None)
    with pytest.raises(UnknownSession):
        await hands.resources.sessions.page(TENANT, before="none")


async def test_a_runs_messages_are_the_sessions_next_ones(hands: Hands):
    place = await hands.submit(session_id="s")
    one = await hands.drive(place)

    await one.send("append_yields", flush(messages=[USER, ASSISTANT]))

    stored = await hands.resources.sessions.messages(TENANT, "s")
    assert [(each.index, each.message) for each in stored] == [(0, USER), (1, ASSISTANT)]
    assert (await hands.resources.sessions.load(TENANT, "s")).length == 2


async def test_messages_are_read_in_pages(hands: Hands):
    place = await hands.submit(session_id="s")
    one = await hands.drive(place)
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    await one.send("append_yields", flush(messages=said))

    pages = [
        await hands.resources.sessions.messages(TENANT, "s", after=after, limit=2)
        for after in (0, 2, 4, 5)
    ]

    assert [[each.index for each in page] for page in pages] == [[0, 1], [2, 3], [4], []]


async def test_a_sessions_runs_are_told_by_their_ordinal(hands: Hands):
    ids = [(await hands.submit(session_id="s")).run_id for _ in range(3)]

    assert await hands.resources.sessions.runs(TENANT, "s") == ids
    assert await hands.resources.sessions.runs(TENANT, "s", after_ordinal=2) == ids[2:]


async def test_a_session_that_no_run_owns_is_forgotten_whole(hands: Hands, any_link: Link):
    place = await hands.submit(session_id="s")
    one = await hands.drive(place)
    await one.send("append_yields", flush(messages=[USER]))
    await one.settle()

    await hands.resources.sessions.delete(TENANT, "s")

    assert await any_link.command("KEYS", "*:session:*") == []
    assert await hands.resources.sessions.page(TENANT) == ([], None)


async def test_deleting_a_session_cancels_the_runs_that_wait_for_it(hands: Hands):
    places = [await hands.submit(session_id="s") for _ in range(3)]

    await hands.resources.sessions.delete(TENANT, "s")

    for place in places:
        assert await hands.types(place) == ["run.queued", "run.cancelled"]
    assert await hands.resources.queue.depth("runs") == 0


async def test_a_session_whose_run_is_gone_can_be_deleted(hands: Hands, any_link: Link):
    gone, *waiting = [await hands.submit(session_id="s") for _ in range(3)]
    await any_link.command("DEL", gone.record)

    await hands.resources.sessions.delete(TENANT, "s")

    assert await any_link.command("KEYS", "*:session:*") == []
    for place in waiting:
        assert (await hands.types(place))[-1] == "run.cancelled"


async def test_the_same_request_for_a_session_again_is_the_same_session(hands: Hands):
    sessions = hands.resources.sessions
    first = await sessions.create(TENANT, metadata={"a": 1}, idempotency=("key", "body"))

    again = await sessions.create(TENANT, metadata={"a": 1}, idempotency=("key", "body"))

    assert again == first
    with pytest.raises(IdempotencyConflict, match=first.id):
        await sessions.create(TENANT, idempotency=("key", "other body"))
    assert (await sessions.create("other", idempotency=("key", "body"))).id != first.id
    await sessions.delete(TENANT, first.id)
    assert (await sessions.create(TENANT, idempotency=("key", "body"))).id != first.id


async def test_a_session_whose_run_is_stopping_is_not_deleted_yet(hands: Hands):
    place = await hands.submit(session_id="s")
    one = await hands.drive(place)
    waiting = await hands.submit(session_id="s")

    with pytest.raises(StillRunning, match=place.run_id):
        await hands.resources.sessions.delete(TENANT, "s")

    assert (await hands.resources.runs.load(TENANT, place.run_id)).is_cancelling
    assert (await hands.types(waiting))[-1] == "run.cancelled"
    await one.settle("cancelled")
    await hands.resources.sessions.delete(TENANT, "s")


async def test_all_keys_of_a_session_end_together_long_after_its_last_use(
    hands: Hands, any_link: Link
):
    place = await hands.submit(session_id="s")
    await hands.submit(session_id="s")
    one = await hands.drive(place)
    await one.send("append_yields", flush(messages=[USER]))

    names = await any_link.command("KEYS", "*:session:s*")
    left = [await any_link.command("PTTL", name) for name in names]

    assert len(names) == 4
    assert max(left) <= SESSION_RETENTION / timedelta(milliseconds=1)
    assert min(left) > (SESSION_RETENTION - timedelta(minutes=1)) / timedelta(milliseconds=1)
