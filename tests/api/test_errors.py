"""What a caller is told of an error: by the table, and nothing that is not its own."""

import inspect
from datetime import timedelta
from http import HTTPStatus

import orjson
import pytest
from fastapi import FastAPI
from redis import exceptions as redis_errors

from api.errors import Refusal, install, problem_of
from loops import errors
from tests.api.conftest import asked

STATUSES: list[tuple[Exception, int, str]] = [
    (errors.UnknownRun("x"), 404, "unknown_run"),
    (errors.UnknownSession("x"), 404, "unknown_session"),
    (errors.UnknownLoop("x", ["y"]), 404, "unknown_loop"),
    (errors.UnknownModel("x", ["y"]), 404, "unknown_model"),
    (errors.UnknownHook("x"), 404, "unknown_hook"),
    (errors.AlreadySettled("x"), 409, "already_settled"),
    (errors.IdempotencyConflict("x"), 409, "idempotency_conflict"),
    (errors.SessionBusy("ses_1", "run_1"), 409, "session_busy"),
    (errors.SessionMovedOn("ses_1", "run_1"), 409, "session_moved_on"),
    (errors.StillRunning("x"), 409, "still_running"),
    (errors.WaitingForHook("ses_1", "run_1"), 409, "waiting_for_hook"),
    (errors.UnknownCall("x"), 404, "unknown_call"),
    (errors.HookGone("x"), 410, "hook_gone"),
    (errors.InvalidInput("x"), 422, "invalid_input"),
    (errors.QueueFull("x", retry_after=timedelta(seconds=5)), 429, "queue_full"),
    (errors.MemoryFull("x", retry_after=timedelta(seconds=5)), 503, "memory_full"),
    (errors.RequestError("x"), 400, "invalid_request"),
    (errors.BrokenHistory("x"), 400, errors.BrokenHistory.code),
    (errors.ToolFailed("x"), 500, "tool_failed"),
    (Refusal(HTTPStatus.NOT_ACCEPTABLE, "no", "x"), 406, "no"),
]


@pytest.mark.parametrize(("error", "status", "code"), STATUSES)
def test_an_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (status, code)


def test_every_error_of_a_caller_is_in_the_table() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.RequestError) and kind is not errors.RequestError:
            told = {type(error) for error, _, _ in STATUSES}
            assert any(issubclass(each, kind) for each in told), kind.__name__


def test_what_passes_says_when_to_come_back() -> None:
    full = errors.QueueFull("x", retry_after=timedelta(milliseconds=4100))

    problem = problem_of(full)

    assert problem.headers == {"Retry-After": "5"}
    assert problem.is_retryable


AWAY: list[Exception] = [
    redis_errors.ConnectionError("no"),
    redis_errors.TimeoutError("no"),
    redis_errors.BusyLoadingError("no"),
    redis_errors.OutOfMemoryError("no"),
    redis_errors.ReadOnlyError("no"),
    redis_errors.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
    redis_errors.ResponseError("NOREPLICAS Not enough good replicas to write."),
    TimeoutError(),
    ConnectionResetError(),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_a_store_that_does_not_answer_is_503_and_may_be_asked_again(error: Exception) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code, problem.is_retryable) == (503, "unavailable", True)
    assert "Retry-After" in problem.headers


OURS: list[Exception] = [
    redis_errors.ResponseError("WRONGTYPE and a secret"),
    KeyError("secret"),
    FileNotFoundError("secret"),
    ValueError("secret"),
]


@pytest.mark.parametrize("error", OURS, ids=lambda error: type(error).__name__)
def test_a_fault_of_ours_tells_nothing(error: Exception) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (500, "internal_error")
    assert b"secret" not in problem.body()


def test_an_unknown_run_is_told_in_the_same_words_whatever_its_id() -> None:
    one, other = problem_of(errors.UnknownRun("run_1")), problem_of(errors.UnknownRun("run_2"))

    assert one.body() == other.body()


def test_a_problem_is_one_of_the_standard() -> None:
    body = orjson.loads(problem_of(errors.AlreadySettled("too late")).body())

    assert body == {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "too late",
        "code": "already_settled",
        "retryable": False,
    }


async def test_an_unforeseen_error_is_problem_json_too() -> None:
    app = FastAPI()
    install(app)

    @app.get("/")
    async def fail() -> None:
        raise KeyError("secret")

    answer = await asked(app, "/")

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
