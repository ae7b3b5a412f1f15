"""What a provider's refusal means, whatever its dialect; pure.

A refusal says what it is in up to three ways: its status, the words of its body, the type that the
body names. Words about the size of the request go before all others: they may hold any digits, and
no retry helps them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

import orjson

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
from loops.jsonable import clean_text, cut_text, jsonable

from .told import fields, whole_number, word

LONGEST_WAIT = timedelta(minutes=10)
"""The longest pause that a provider may ask for; what is longer is this long."""

SHOWN = 300
"""How many characters of a refusal's text an error shows."""

SHORTEST_SECRET = 6
"""A key that is shorter is none: it stands in for one where none is asked for."""

READ = 4096
"""How many characters of a refusal's text are looked at."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a provider answered instead of a reply."""

    status: int | None = None
    """None for an error that came after the status was sent."""
    kind: str = ""
    """The type or code that the provider names."""
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """By names in lower case."""
    error: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the error object says."""


def refusal_of(
    body: bytes, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Refusal:
    """Read a refusal: an error object in any dialect, a bare string, HTML, or nothing."""
    named = {name.lower(): value for name, value in (headers or {}).items()}
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = clean_text(body.decode("utf-8", "replace")).strip()
        return Refusal(status, "", "" if text.startswith("<") else text[:READ], named)
    return described(told, status=status, headers=named)


def described(
    told: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Refusal:
    """Read a refusal that is JSON already."""
    error = told
    if isinstance(told, list) and told:
        # Gemini's compatible service wraps its error in a list.
        error = cast("list[object]", told)[0]
    while isinstance(inner := fields(error).get("error"), dict | str):
        error = cast("object", inner)
    if not isinstance(error, Mapping):
        text = error if isinstance(error, str) else ""
        return Refusal(status, "", clean_text(text[:READ]), headers or {})
    said = dict(cast("Mapping[str, Any]", error))
    named = (said.get(name) for name in ("type", "code", "status"))
    kinds = " ".join(str(kind) for kind in named if isinstance(kind, str | int))
    return Refusal(status, kinds[:SHOWN], clean_text(_words(said)[:READ]), headers or {}, said)


def _words(error: Mapping[str, Any]) -> str:
    """Return what an error object says for people: a sentence, or what stands in its place."""
    told = next((error[each] for each in ("message", "detail", "msg") if error.get(each)), "")
    text = told if isinstance(told, str) else orjson.dumps(jsonable(told)).decode()
    # A router's own sentence says nothing; the service's answer stands beside it.
    raw = fields(error.get("metadata")).get("raw")
    return f"{text}: {raw}" if isinstance(raw, str) else text


def tells_failure(refusal: Refusal) -> bool:
    """Whether an answer that claims success tells of a failure, and is no whole reply."""
    is_reply = not _OF_REPLIES.isdisjoint(refusal.error)
    return not is_reply and bool(refusal.kind or refusal.text)


_OF_REPLIES = frozenset({"choices", "content", "output"})
"""What whole replies have, and no refusal."""


def hidden(text: str, secret: str) -> str:
    """Return the text without the secret, which a service may have echoed."""
    return text.replace(secret, "[key]") if len(secret) >= SHORTEST_SECRET else text


def failure_of_refusal(model: str, refusal: Refusal, *, secret: str = "") -> ProviderError:
    """Return the error that a refusal is; it says whether asking again may help.

    `secret` is what its text must not show, whatever the service echoes.
    """
    error = _error(refusal, _told(model, refusal, secret))
    error.kind = hidden(word(refusal.error.get("type"))[:SHOWN], secret)
    error.said = hidden(refusal.text, secret)
    return error


def _error(refusal: Refusal, told: str) -> ProviderError:
    size = _size(refusal)
    if size is not None:
        return ContextTooLong(told, limit=size[0], sent=size[1], status=refusal.status)
    kind = _by_kind(refusal) or _by_status(refusal.status or _code_in(refusal))
    return kind(told, status=refusal.status, retry_after=retry_after(refusal.headers))


def _told(model: str, refusal: Refusal, secret: str) -> str:
    status = f" {refusal.status}" if refusal.status else " with an error"
    kind = f" ({hidden(refusal.kind, secret)})" if refusal.kind else ""
    text = f": {cut_text(hidden(refusal.text, secret), SHOWN)}" if refusal.text else ""
    return f"the model {model!r} answered{status}{kind}{text}"


def _long(pattern: str) -> re.Pattern[str]:
    """Return the pattern with its named numbers, which may have commas in them."""
    named = re.sub(r"<(\w+)>", lambda name: rf"(?P<{name[1]}>\d[\d,]{{0,14}})", pattern)
    return re.compile(named, re.IGNORECASE | re.DOTALL)


# The words of a request that is too long, with its limit and size where they are told.
_TOO_LONG = tuple(
    map(
        _long,
        (
            r"prompt is too long: <sent> tokens > <limit>",
            r"prompt is too long: <sent>, model maximum context length: <limit>",
            r"exceed(?:s)? context limit: <input> \+ <output> > <limit>",
            r"maximum (?:context|prompt) length is <limit>(?:.{0,200}?<sent> tokens)?",
            r"input token count \(?<sent>\)? exceeds .{0,60}?\(?<limit>\)?",
            r"input token count exceeds the maximum number of tokens allowed \(?<limit>",
            r"exceed the configured limit of <limit> tokens.{0,100}?<sent> tokens",
            r"exceeded model token limit: <limit> \(requested: <sent>\)",
            r"request \(<sent> tokens\) exceeds the available context size \(<limit>",
            r"contains <sent> tokens .{0,60}?<limit> maximum context length",
            r"range of input length should be \[1, <limit>\]",
            r"exceeds? the (?:available |model's |maximum )?context (?:size|length|window)",
            r"prompt exceeds max(?:imum)? length",
            r"request too large.{0,200}? limit <limit>, requested <sent>",
            r"(?:input|prompt|request) (?:is )?too (?:long|large)",
            r"reduce the length of the (?:messages|prompt|input)",
            r"context[ _]?(?:length|window)[ _]?exceeded",
            r"too many tokens: size limit exceeded",
        ),
    )
)
_TOO_LONG_KINDS = re.compile(r"context_length_exceeded|exceed_context_size|string_above_max_length")


def _size(refusal: Refusal) -> tuple[int | None, int | None] | None:
    """Return limit and size of a request that is too long, as far as told; None for any other."""
    for pattern in _TOO_LONG:
        if found := pattern.search(refusal.text):
            named = found.groupdict().items()
            told = {name: int(value.replace(",", "")) for name, value in named if value}
            both = told.get("input", 0) + told.get("output", 0)
            return told.get("limit"), told.get("sent", both or None)
    if _TOO_LONG_KINDS.search(refusal.kind):
        limit, sent = refusal.error.get("n_ctx"), refusal.error.get("n_prompt_tokens")
        return whole_number(limit), whole_number(sent)
    return None


_KINDS: tuple[tuple[str, type[ProviderError]], ...] = (
    (r"rate_limit|too_many_requests|resource_exhausted", RateLimited),
    (r"overloaded|capacity", Overloaded),
    (r"authentication|permission|invalid_api_key|unauthenticated", Unauthorized),
    (r"content_filter|content_policy|moderation", Refused),
    (r"timeout|deadline_exceeded", Timeout),
    (r"invalid_request|not_found|unsupported|invalid_argument|request_too_large", InvalidRequest),
    (r"api_error|server_error|internal|unavailable", Unavailable),
)


def _by_kind(refusal: Refusal) -> type[ProviderError] | None:
    if re.search(_UNPAID, refusal.kind):
        # It comes as a 429, but no waiting fills an account.
        return Unauthorized
    if refusal.status in _TELLING:
        return None
    named = (kind for pattern, kind in _KINDS if re.search(pattern, refusal.kind, re.IGNORECASE))
    kind = next(named, None)
    # A server that has failed itself is asked again, whatever it says of the request.
    has_failed = (refusal.status or 0) >= HTTPStatus.INTERNAL_SERVER_ERROR
    return None if has_failed and kind is not None and not kind.retryable else kind


_UNPAID = r"insufficient_quota|billing"

_TELLING = frozenset({401, 403, 408, 413, 429, 529})
"""Statuses that say more than any type that stands beside them."""


def _by_status(status: int | None) -> type[ProviderError]:
    match status:
        case None | HTTPStatus.CONFLICT:
            return Unavailable
        case HTTPStatus.TOO_MANY_REQUESTS:
            return RateLimited
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.GATEWAY_TIMEOUT:
            return Timeout
        case HTTPStatus.SERVICE_UNAVAILABLE | 529:
            return Overloaded
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN | HTTPStatus.PAYMENT_REQUIRED:
            return Unauthorized
        case _:
            return InvalidRequest if status < HTTPStatus.INTERNAL_SERVER_ERROR else Unavailable


def _code_in(refusal: Refusal) -> int | None:
    """Return the status that an error object names, which came after the status of the answer."""
    code = refusal.error.get("code", refusal.error.get("status_code"))
    text = str(code) if code is not None else ""
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> timedelta | None:
    """Return how long a provider asks to wait: told in ms, in seconds, or as a date; capped."""
    asked = _seconds(_header(headers, "retry-after-ms"), 0.001)
    told = _header(headers, "retry-after")
    if asked is None:
        asked = _seconds(told, 1.0)
    if asked is None and told:
        asked = _until(told, now or datetime.now(UTC))
    if asked is None:
        return None
    return min(timedelta(seconds=max(0.0, asked)), LONGEST_WAIT)


def _header(headers: Mapping[str, str], name: str) -> str:
    """Return what a service says, or else what a proxy hands on of the service behind it."""
    return (headers.get(name, "") or headers.get(f"{_HANDED_ON}{name}", "")).strip()


_HANDED_ON = "llm_provider-"
"""What LiteLLM's proxy puts before the names of its upstream's headers."""


def _seconds(text: str, unit: float) -> float | None:
    return float(text) * unit if re.fullmatch(r"\d{1,12}(\.\d+)?", text.strip()) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        return (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
