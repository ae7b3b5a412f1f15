"""A provider's failure survives the journal, as the error that it was."""

from datetime import timedelta

import orjson
import pytest

from loops.errors import (
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Timeout,
    Unauthorized,
    Unavailable,
)
from worker.provider_errors import decode_error, encode_error

ERRORS = [
    ProviderError("it failed", retryable=True, status=500),
    ProviderError("it failed"),
    RateLimited("slow down", retry_after=timedelta(seconds=1.5)),
    RateLimited("slow down"),
    RateLimited("slow down", status=None),
    Overloaded("busy", status=503, retry_after=timedelta(seconds=7)),
    Unavailable("gone", status=502, retry_after=timedelta(milliseconds=250)),
    InvalidRequest("what", status=422),
    ContextTooLong("too long", limit=100, sent=120),
    Overloaded("busy", status=529),
    Incomplete("it broke off"),
    Timeout("no answer"),
    Unauthorized("who are you", status=401),
    Refused("no"),
]


def told(error: ProviderError, kind: str, said: str) -> ProviderError:
    error.kind, error.said = kind, said
    return error


ERRORS += [
    told(RateLimited("slow down"), "rate_limit_error", "You ask too often"),
    told(ContextTooLong("too long", limit=100, sent=120), "invalid_request_error", "Too long"),
    told(Unavailable("gone"), "", "something broke"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_of_its_own_class_with_all_it_carried(error: ProviderError):
    stored = orjson.loads(orjson.dumps(encode_error(error)))

    again = decode_error(stored)

    assert type(again) is type(error)
    assert encode_error(again) == stored == encode_error(error)


class NovelError(ProviderError):
    """A class that only a newer worker has."""


def test_an_error_that_is_not_known_here_is_the_roots():
    stored = encode_error(NovelError("new", retryable=True, status=418))

    again = decode_error(stored)

    assert type(again) is ProviderError
    assert (str(again), again.retryable, again.status) == ("new", True, 418)
