"""What a provider's refusal means, in the dialects that are out there."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from loops.errors import (
    ContextTooLong,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Timeout,
    Unauthorized,
    Unavailable,
)
from loops.providers.failures import (
    LONGEST_WAIT,
    described,
    failure_of_refusal,
    refusal_of,
    retry_after,
)


def failure(status: int | None, told: object, **headers: str) -> ProviderError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = told if isinstance(told, bytes) else orjson.dumps(told)
    return failure_of_refusal("acme/x", refusal_of(body, status=status, headers=named))


def anthropic(kind: str, text: str = "no") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": text}}


def openai(
    text: str, code: object = None, kind: str = "invalid_request_error"
) -> dict[str, object]:
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "told", "kind", "retryable"),
    [
        (400, anthropic("invalid_request_error"), InvalidRequest, False),
        (401, anthropic("authentication_error"), Unauthorized, False),
        (403, anthropic("permission_error"), Unauthorized, False),
        (404, anthropic("not_found_error"), InvalidRequest, False),
        (413, anthropic("request_too_large"), InvalidRequest, False),
        (429, anthropic("rate_limit_error"), RateLimited, True),
        (500, anthropic("api_error"), Unavailable, True),
        (504, anthropic("timeout_error"), Timeout, True),
        (529, anthropic("overloaded_error"), Overloaded, True),
        (None, anthropic("overloaded_error"), Overloaded, True),
        (None, anthropic("api_error"), Unavailable, True),
        (None, anthropic("rate_limit_error"), RateLimited, True),
        (None, anthropic("invalid_request_error"), InvalidRequest, False),
        (429, openai("slow down", "rate_limit_exceeded", "requests"), RateLimited, True),
        (429, openai("pay", "insufficient_quota", "insufficient_quota"), Unauthorized, False),
        (401, openai("bad key", "invalid_api_key"), Unauthorized, False),
        (400, openai("no", "content_filter"), Refused, False),
        (503, openai("busy", None, "server_error"), Unavailable, True),
        (503, b"<html>busy</html>", Overloaded, True),
        (503, openai("no", "invalid_request_error"), Overloaded, True),
        (500, openai("no", None, "authentication_error"), Unavailable, True),
        (502, b"", Unavailable, True),
        (408, b"", Timeout, True),
        (409, b"", Unavailable, True),
        (418, b"", InvalidRequest, False),
        (302, b"", InvalidRequest, False),
        (None, {"error": {"code": 429, "message": "slow"}}, RateLimited, True),
        (None, {"error": {"code": "502", "message": "bad"}}, Unavailable, True),
        (None, {"error": "something"}, Unavailable, True),
        (None, "something", Unavailable, True),
        (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}], InvalidRequest, False),
        (413, openai("too many bytes", "rate_limit_exceeded", "tokens"), InvalidRequest, False),
        (413, b"<html>413 Request Entity Too Large</html>", InvalidRequest, False),
        (None, {"error": True, "message": "busy", "type": "overloaded_error"}, Overloaded, True),
    ],
)
def test_a_refusal_is_an_error_that_says_whether_to_ask_again(
    status: int | None, told: object, kind: type, retryable: bool
) -> None:
    error = failure(status, told)

    assert type(error) is kind
    assert error.retryable is retryable
    assert error.status == status


@pytest.mark.parametrize(
    ("text", "limit", "sent"),
    [
        ("prompt is too long: 205429 tokens > 200000 maximum", 200000, 205429),
        ("input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease",
         200000, 211333),
        ("This model's maximum context length is 8192 tokens. However, you sent 10021 tokens.",
         8192, 10021),
        ("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
         4096, 5000),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
         131072, 537812),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
         1048576, 1200000),
        ("Input tokens exceed the configured limit of 272000 tokens. You sent 300429 tokens.",
         272000, 300429),
        ("request (5000 tokens) exceeds the available context size (4096 tokens)", 4096, 5000),
        ("Input is too long for requested model.", None, None),
        ("Your request exceeded model token limit: 262144 (requested: 269030)", 262144, 269030),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1048576,
         None),
        ("The prompt is too long: 140000, model maximum context length: 131071", 131071, 140000),
        ("Range of input length should be [1, 129024]", 129024, None),
        ("Prompt exceeds max length", None, None),
        ("maximum context length is 128,000 tokens", 128000, None),
        ("Please reduce the length of the messages or completion.", None, None),
        ("Request too large for `x` on tokens per minute (TPM): Limit 6000, Requested 7012.",
         6000, 7012),
        ("Request too large", None, None),
        ("litellm.ContextWindowExceededError: no", None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [400, 413, 429, 500, None])
def test_a_request_that_is_too_long_is_that_and_nothing_else(
    text: str, limit: int | None, sent: int | None, status: int | None
) -> None:
    error = failure(status, openai(text))

    assert isinstance(error, ContextTooLong)
    assert (error.limit, error.sent, error.retryable) == (limit, sent, False)


@pytest.mark.parametrize("kind", ["rate_limit_exceeded", "rate_limit_error", "too_many_requests"])
def test_what_is_too_large_for_any_limit_is_not_asked_again(kind: str) -> None:
    for text in ("Request too large for gpt-x: Limit 6000, Requested 7012.", "too many bytes"):
        error = failure(413, openai(text, kind, "tokens"), retry_after="7")

        assert isinstance(error, (ContextTooLong, InvalidRequest))
        assert not error.retryable


def test_a_limit_that_time_mends_is_one() -> None:
    told = "Rate limit reached for gpt-x on tokens per min (TPM): Limit 9, Used 8, Requested 3."

    assert isinstance(failure(429, openai(told, "rate_limit_exceeded", "tokens")), RateLimited)


def test_a_code_alone_tells_of_a_request_that_is_too_long() -> None:
    told = {"error": {"type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 5000}}

    error = failure(400, told)

    assert isinstance(error, ContextTooLong)
    assert (error.limit, error.sent) == (4096, 5000)


def test_the_text_of_a_refusal_is_shown_and_bounded() -> None:
    error = failure(400, anthropic("invalid_request_error", "max_tokens: " + "9" * 5000))

    assert "the model 'acme/x' answered 400 (invalid_request_error): max_tokens: 999" in str(error)
    assert len(str(error)) < 500


def test_a_key_that_is_echoed_is_not_shown() -> None:
    told = refusal_of(b'{"error":{"message":"bad key sk-canary","type":"sk-canary"}}', status=401)

    assert "canary" not in str(failure_of_refusal("m", told, secret="sk-canary"))


@pytest.mark.parametrize(
    ("told", "kind", "said"),
    [
        (anthropic("novel_error", "what it is"), "novel_error", "what it is"),
        (openai("what it is", "a_code"), "invalid_request_error", "what it is"),
        ({"error": {"message": "no, sk-canary", "type": "sk-canary"}}, "[key]", "no, [key]"),
        (anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
         "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ({"error": {"message": "what it is", "type": 7}}, "", "what it is"),
        (b"<html>no</html>", "", ""),
        (b"", "", ""),
    ],
)  # fmt: skip
def test_what_a_provider_says_itself_is_kept_beside_our_text(
    told: object, kind: str, said: str
) -> None:
    body = told if isinstance(told, bytes) else orjson.dumps(told)

    error = failure_of_refusal("acme/x", refusal_of(body, status=400), secret="sk-canary")

    assert (error.kind, error.said) == (kind, said)


def test_no_page_of_html_is_shown() -> None:
    assert str(failure(502, b"<html><body>Bad gateway</body>")) == "the model 'acme/x' answered 502"


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "99999"}, LONGEST_WAIT.total_seconds()),
        ({"llm_provider-retry-after": "7"}, 7.0),
        ({"llm_provider-retry-after": "7", "retry-after": "3"}, 3.0),
        ({"llm_provider-retry-after-ms": "250"}, 0.25),
    ],
)
def test_how_long_to_wait_is_told_in_three_ways(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers, now=NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "told", ["", "soon", "-3", "1e9", "nan", "Sun, 01 Mar 99999999999999999999 12:00:00 GMT"]
)
def test_what_tells_no_time_is_passed_over(told: str) -> None:
    assert retry_after({"retry-after": told}, now=NOW) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, RateLimited), (503, Overloaded), (529, Overloaded), (500, Unavailable), (408, Timeout)],
)
def test_whatever_may_be_asked_again_carries_how_long_to_wait(status: int, kind: type) -> None:
    error = failure(status, b"", retry_after="3")

    assert type(error) is kind
    assert error.retry_after == timedelta(seconds=3)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]},
         "stream_options"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "the host broke"}}},
         "Provider returned error: the host broke"),
        ({"message": {"why": "of\ud83d"}}, "why"),
    ],
    ids=["a list of details", "what a router was told", "an object, with half a character"],
)  # fmt: skip
def test_what_a_refusal_says_is_shown_wherever_it_stands(told: object, shown: str) -> None:
    assert shown in str(failure_of_refusal("m", described(told, status=422)))


def test_a_router_that_was_told_of_a_long_request_says_so() -> None:
    raw = '{"error":{"message":"maximum context length is 8192 tokens"}}'
    told = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}

    error = failure(400, {"error": told})

    assert isinstance(error, ContextTooLong)
    assert error.limit == 8192


@pytest.mark.parametrize(
    "told", [None, [], {}, 7, {"error": None}, {"error": {"message": {"a": 1}}}]
)
def test_whatever_stands_in_a_body_is_read(told: object) -> None:
    assert isinstance(failure_of_refusal("m", described(told)), ProviderError)
