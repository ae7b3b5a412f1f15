from datetime import timedelta

import httpx
import pytest

from loops.errors import (
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    LoopFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    SetupError,
    Timeout,
    Unauthorized,
    Unavailable,
)
from loops.port_failures import failure_of

REQUEST = httpx.Request("POST", "https://acme.test/v1?key=secret")


def answered(status: int, body: str = "", **headers: str) -> httpx.HTTPStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, text=body, headers=named, request=REQUEST)
    return httpx.HTTPStatusError("no", request=REQUEST, response=response)


@pytest.mark.parametrize("error", [Incomplete("x"), RateLimited("x"), SetupError("x")], ids=repr)
def test_an_error_of_ours_is_itself(error: Exception) -> None:
    assert failure_of("port", error) is error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ReadTimeout("slow"), Timeout),
        (httpx.PoolTimeout(""), Timeout),
        (httpx.ConnectError("refused"), Unavailable),
        (httpx.RemoteProtocolError("gone"), Unavailable),
        (ExceptionGroup("one", [httpx.ConnectError("refused")]), Unavailable),
    ],
    ids=repr,
)
def test_a_service_that_is_not_reached_may_be_asked_again(error: Exception, kind: type) -> None:
    failure = failure_of("port", error)

    assert type(failure) is kind
    assert isinstance(failure, ProviderError)
    assert failure.retryable
    assert "the model 'port'" in str(failure)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (httpx.ReadError("reset"), "broke"),
        (httpx.RemoteProtocolError("incomplete chunked read"), "broke"),
        (httpx.ConnectError("refused"), "cannot be reached"),
    ],
    ids=repr,
)
def test_a_connection_that_broke_is_not_one_that_was_never_there(
    error: Exception, told: str
) -> None:
    assert told in str(failure_of("port", error))


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, InvalidRequest, False),
        (401, Unauthorized, False),
        (403, Unauthorized, False),
        (404, InvalidRequest, False),
        (408, Timeout, True),
        (409, Unavailable, True),
        (422, InvalidRequest, False),
        (429, RateLimited, True),
        (500, Unavailable, True),
        (402, Unauthorized, False),
        (503, Overloaded, True),
        (504, Timeout, True),
        (529, Overloaded, True),
    ],
)
def test_a_status_says_whether_another_try_may_help(
    status: int, kind: type, retryable: bool
) -> None:
    failure = failure_of("port", answered(status, "why"))

    assert type(failure) is kind
    assert isinstance(failure, ProviderError)
    assert (failure.retryable, failure.status) == (retryable, status)
    assert str(failure) == f"the model 'port' answered {status}: why"
    assert "secret" not in str(failure)


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("7", timedelta(seconds=7)),
        (" 1.5 ", timedelta(seconds=1.5)),
        ("Wed, 21 Oct 2020 07:28:00 GMT", timedelta(0)),
        ("999999", timedelta(minutes=10)),
        ("-3", None),
        ("9" * 30, None),
        ("soon", None),
    ],
)
@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_service_may_say_how_long_to_wait(told: str, wait: timedelta | None, status: int) -> None:
    failure = failure_of("port", answered(status, retry_after=told))

    assert isinstance(failure, ProviderError)
    assert failure.retry_after == wait


def test_a_service_need_not_say_how_long_to_wait() -> None:
    failure = failure_of("port", answered(429))

    assert isinstance(failure, RateLimited)
    assert failure.retry_after is None


def test_a_body_that_nobody_has_read_is_left_out() -> None:
    response = httpx.Response(503, stream=httpx.ByteStream(b"why"), request=REQUEST)
    error = httpx.HTTPStatusError("no", request=REQUEST, response=response)

    failure = failure_of("port", error)

    assert str(failure) == "the model 'port' answered 503"


def test_a_long_body_is_shown_in_part() -> None:
    assert len(str(failure_of("port", answered(500, "x" * 100_000)))) < 500


@pytest.mark.parametrize("error", [KeyError("x"), httpx.InvalidURL("x"), OSError("x")], ids=repr)
def test_anything_else_is_a_fault_of_the_port(error: Exception) -> None:
    failure = failure_of("port", error)

    assert type(failure) is LoopFailed
    assert str(failure).startswith(f"the model port 'port' raised {type(error).__name__}: ")


def test_a_prompt_that_is_too_long_is_known_from_any_port() -> None:
    failure = failure_of("port", answered(400, "prompt is too long: 205 tokens > 200 maximum"))

    assert isinstance(failure, ContextTooLong)
    assert (failure.limit, failure.sent) == (200, 205)
