"""Names in Redis: no two of them collide, and those that may stay are on the written list."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.keys import NAME, Keys, stays

NAMES = st.from_regex(NAME, fullmatch=True)
KEYS = Keys("loopmill")


def all_names(tenant: str, run_id: str, session_id: str) -> list[str]:
    run, session = KEYS.run(tenant, run_id), KEYS.session(tenant, session_id)
    return [
        *(run.record, run.log, run.journal, run.calls, run.yields, run.handed, run.input),
        *(run.snapshot, session.record, session.messages, session.queue, session.runs),
        *(KEYS.runs(tenant), KEYS.sessions(tenant), KEYS.idempotency(tenant, run_id)),
    ]


def test_a_runs_names_begin_with_that_of_its_record():
    run = KEYS.run("acme", "run_1")

    assert run.record == "loopmill:acme:run:run_1"
    assert run.log == "loopmill:acme:run:run_1:log"
    assert {name.rpartition(":")[0] for name in (run.journal, run.calls, run.yields)} == {
        run.record
    }


def test_a_queues_names_are_those_that_arq_reads():
    queue = KEYS.queue("gpu")

    assert queue.queue == "arq:queue:loopmill:gpu"
    assert (queue.claims, queue.tokens) == (f"{queue.queue}:claims", f"{queue.queue}:tokens")
    assert (queue.lapses, queue.wake) == (f"{queue.queue}:lapses", f"{queue.queue}:wake")
    assert queue.unknown("t/a") == f"{queue.queue}:unknown:t/a"


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_names_collide_whatever_the_ids_are(one: str, two: str, three: str, four: str):
    places = {(a, b) for a, b in product((one, two), (three, four))}

    names = [name for tenant, own in places for name in all_names(tenant, own, own)]

    indexes = {KEYS.runs(tenant) for tenant, _ in places}
    indexes |= {KEYS.sessions(tenant) for tenant, _ in places}
    single = [name for name in names if name not in indexes]
    assert len(set(single)) == len(single)
    assert not indexes & set(single)


@given(NAMES, NAMES)
def test_no_tenants_name_is_one_that_all_tenants_share(tenant: str, own: str):
    shared = {KEYS.queues, KEYS.workers(own), KEYS.worker(own), KEYS.owner(own)}

    assert not shared & set(all_names(tenant, own, own))


@pytest.mark.parametrize(
    "name", ["", "a:b", "a/b", "@all", "a b", "ü", "x" * 65, "a\n", "*", "{a}"]
)
def test_an_id_outside_of_the_grammar_is_none(name: str):
    assert NAME.fullmatch(name) is None


@pytest.mark.parametrize(
    "name",
    [
        KEYS.queue("runs").queue,
        KEYS.queue("runs:batch").queue,
        KEYS.queue("runs:batch").claims,
        KEYS.queue("tools").tokens,
        KEYS.queue("tools").lapses,
        f"arq:job:{KEYS.run_job('acme', 'run_1')}",
        f"arq:job:{KEYS.call_job('acme', 'run_1', 'turn:1.0')}",
        "arq:abort",
        KEYS.queues,
        KEYS.workers("runs"),
        KEYS.runs("acme"),
        KEYS.sessions("acme"),
    ],
)
def test_queues_claims_jobs_and_registries_may_stay(name: str):
    assert stays(name)


@given(NAMES, NAMES)
def test_nothing_of_a_run_or_a_session_may_stay(tenant: str, own: str):
    names = set(all_names(tenant, own, own)) - {KEYS.runs(tenant), KEYS.sessions(tenant)}

    assert [name for name in names if stays(name)] == []


@pytest.mark.parametrize(
    "name", ["arq:queue:loopmill:runs:wake", "arq:in-progress:x", "arq:retry:x", "arq:result:x"]
)
def test_what_arq_and_we_let_expire_may_not_stay(name: str):
    assert not stays(name)


def test_a_workers_record_may_not_stay():
    assert not stays(KEYS.worker("w1"))
