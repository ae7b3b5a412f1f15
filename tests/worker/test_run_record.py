"""A run's record and its ledger, as they are read from their hashes."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.run_record import (
    MOVES,
    TERMINAL,
    RunFailure,
    RunStatus,
    decode_calls,
    decode_run,
    pairs,
)

STORED = {
    "v": b"1",
    "id": b"run_1",
    "tenant": b"acme",
    "session": b"ses_1",
    "agent": b"triage",
    "status": b"running",
    "attempt": b"2",
    "epoch": b"5",
    "created": b"1700000000123",
    "metadata": b'{"a":1}',
    "last_seq": b"42",
    "timeout": b"90000",
    "ordinal": b"3",
    "a field of a newer version": b"x",
}


def test_a_fresh_run_has_no_end_no_output_and_no_error():
    run = decode_run(STORED)

    assert (run.id, run.session_id, run.status, run.attempt) == ("run_1", "ses_1", "running", 2)
    assert (run.started_at, run.finished_at, run.output, run.error) == (None, None, None, None)
    assert (run.usage, run.metadata, run.timeout) == (None, {"a": 1}, timedelta(seconds=90))
    assert (run.cut, run.is_cancelling, run.is_settled) == (0, False, False)


def test_a_runs_times_are_those_of_the_servers_clock_in_utc():
    run = decode_run({**STORED, "started": b"1700000001000", "finished": b"1700000002000"})

    assert run.created_at == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert run.started_at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)
    assert run.finished_at == datetime(2023, 11, 14, 22, 13, 22, tzinfo=UTC)


def test_a_failed_run_has_its_error_and_its_partial_output():
    told = {"status": b"failed", "error": b'{"code":"timed_out","message":"too long"}'}

    run = decode_run({**STORED, **told, "output": b"half", "usage": b"null", "cancel": b"user"})

    assert run.error == RunFailure(code="timed_out", message="too long")
    assert (run.output, run.usage, run.is_cancelling, run.is_settled) == ("half", None, True, True)


def test_an_empty_output_is_not_none():
    assert decode_run({**STORED, "output": b""}).output == ""


@pytest.mark.parametrize("status", RunStatus)
def test_nothing_moves_out_of_a_terminal_status_and_everything_else_can_end(status: RunStatus):
    if status in TERMINAL:
        assert MOVES[status] == frozenset()
    else:
        assert MOVES[status] > TERMINAL


def test_only_a_queued_run_begins_and_only_a_running_one_waits():
    begins = {status for status in RunStatus if RunStatus.RUNNING in MOVES[status]}
    waits = {status for status in RunStatus if RunStatus.WAITING in MOVES[status]}

    assert (begins, waits) == ({RunStatus.QUEUED}, {RunStatus.RUNNING})


def test_a_flat_reply_is_a_mapping():
    assert pairs([b"a", b"1", b"b", b"2"]) == {"a": b"1", "b": b"2"}


def test_a_ledger_is_read_in_the_order_in_which_its_calls_were_started():
    call = (
        b'{"id":"call_0","key":"turn:1.0","name":"%s","arguments":"{}","turn":"turn:1","block":0}'
    )
    fields = {
        "turn:1.0|state": b"started",
        "turn:1.0|call": call % b"search",
        "turn:1.0|again": b"1",
        "turn:1.0|attempts": b"2",
        "turn:1.0|worker": b"w1",
        "x.9|state": b"queued",
        "x.9|call": call % b"mail",
        "x.9|again": b"0",
        "x.9|attempts": b"0",
    }

    first, second = decode_calls("run_1", fields)

    assert (first.key, first.name, first.attempts, first.worker) == ("turn:1.0", "search", 2, "w1")
    assert (first.is_idempotent, first.idempotency_key) == (True, "run_1:turn:1.0")
    assert (second.key, second.name, second.state) == ("x.9", "mail", "queued")
    assert (second.worker, second.is_idempotent) == (None, False)


def test_a_half_written_line_of_the_ledger_is_passed_over():
    assert decode_calls("run_1", {"turn:1.0|result": b"{}"}) == []
