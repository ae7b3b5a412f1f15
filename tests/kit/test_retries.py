import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from loops.errors import (
    BadYield,
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    Overloaded,
    RateLimited,
    Refused,
    Timeout,
    Unauthorized,
    Unavailable,
)
from loops.kit import LLM
from loops.kit.foreign import failure_of
from loops.kit.retrying import LONGEST_WISH, MAX_RETRIES, delay, is_retryable
from loops.kit.turn import Turn
from loops.messages import Messages
from loops.providers.scripted import scripted
from tests.kit.loop_talks import (
    BEAT,
    PING,
    Patient,
    asking,
    callouts,
    kept,
    of,
    others,
    roles,
    texts,
    told,
    told_until_it_fails,
)
from tests.kit.providers import ScriptedProvider, turn_of
from tests.loops.providers.service import Answer, serving


class Answered(Exception):  # noqa: N818 - named as those of official clients are
    """A service's refusal as an official client raises it: a status, and the answer's headers."""

    def __init__(self, status: int, text: str = "refused", **headers: str) -> None:
        self.status_code = status
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = httpx.Response(status, headers=named)
        super().__init__(text)


class APIConnectionError(Exception):
    """What an official client raises when a connection breaks."""


async def test_a_busy_model_is_asked_again_until_it_answers() -> None:
    context = asking()
    provider = ScriptedProvider([Overloaded("busy"), Overloaded("busy"), "Sunny."])

    events = await told(context, provider)

    assert texts(events) == "Sunny."
    assert len(provider.asked) == 3
    assert callouts(events) == []
    assert roles(await kept(context)) == ["user", "assistant"]


async def test_a_model_that_stays_busy_is_asked_again_ten_times_ever_more_rarely() -> None:
    context = asking()
    provider = ScriptedProvider([Answered(529)] * 11)

    events, error = await told_until_it_fails(context, provider)

    assert isinstance(error, Overloaded)
    assert len(provider.asked) == MAX_RETRIES + 1 == 11
    expected = [0.5, 1, 2, 4, 8, 16, 32, 32, 32, 32]
    shares = [slept / base for slept, base in zip(context.slept, expected, strict=True)]
    assert all(1 <= share <= 1.25 for share in shares)
    assert len(set(shares)) == 10
    assert callouts(events)[0].startswith("Something went wrong")


async def test_each_wait_is_told_as_one_step() -> None:
    context = asking()

    events = await told(context, ScriptedProvider([Overloaded("busy")] * 2 + ["Sunny."]))

    first, second = of(events, "step")
    assert first["step"] == (
        f"Model endpoint busy, retrying in {context.slept[0]:.1f}s... (attempt 1/10)"
    )
    assert second["step"].endswith("(attempt 2/10)")
    assert first["id"] == second["id"]


async def test_a_port_of_ours_is_not_asked_more_often_than_that() -> None:
    model = scripted(Overloaded("busy"))
    context = asking()

    _, error = await told_until_it_fails(context, model)

    assert isinstance(error, Overloaded)
    assert model.asked == 11


def test_the_chance_in_a_delay_is_that_of_the_run() -> None:
    delays = [delay(Overloaded("busy"), attempt, "run:0") for attempt in range(1, 11)]

    again = [delay(Overloaded("busy"), attempt, "run:0") for attempt in range(1, 11)]
    other = [delay(Overloaded("busy"), attempt, "other:0") for attempt in range(1, 11)]

    assert delays == again
    assert all(one != two for one, two in zip(delays, other, strict=True))


@pytest.mark.parametrize(
    ("asked_for", "waited"),
    [("7", 7.0), ("0.25", 0.25), ("3600", LONGEST_WISH.total_seconds())],
)
async def test_a_service_says_how_long_to_wait(asked_for: str, waited: float) -> None:
    context = asking()

    await told(context, ScriptedProvider([Answered(429, retry_after=asked_for), "Sunny."]))

    assert context.slept == [waited]


async def test_a_service_says_until_when_to_wait() -> None:
    context = asking()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)

    await told(context, ScriptedProvider([Answered(503, retry_after=date), "Sunny."]))

    [slept] = context.slept
    assert 60 < slept <= 90


async def test_a_date_that_is_past_asks_for_no_wait_of_its_own() -> None:
    context = asking()
    past = "Wed, 21 Oct 2015 07:28:00 GMT"

    await told(context, ScriptedProvider([Answered(503, retry_after=past), "Sunny."]))

    assert 0.5 <= context.slept[0] <= 0.625


@pytest.mark.parametrize(
    "broken",
    [
        ConnectionResetError("reset by peer"),
        TimeoutError("nothing came"),
        httpx.RemoteProtocolError("peer closed connection"),
        httpx.ReadTimeout("nothing came"),
        APIConnectionError("Connection error."),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_connection_that_breaks_is_made_again(broken: Exception) -> None:
    context = asking()

    events = await told(context, ScriptedProvider([broken, "Sunny."]))

    assert texts(events) == "Sunny."
    assert len(context.slept) == 1


@pytest.mark.parametrize(
    ("error", "kind", "is_asked_again"),
    [
        (Answered(429), RateLimited, True),
        (Answered(529), Overloaded, True),
        (Answered(500), Unavailable, True),
        (Answered(502), Unavailable, True),
        (Answered(503), Overloaded, True),
        (Answered(504), Timeout, True),
        (Answered(400), InvalidRequest, False),
        (Answered(401), Unauthorized, False),
        (Answered(404), InvalidRequest, False),
        (RuntimeError("Overloaded"), Overloaded, True),
        (RuntimeError("Rate limit exceeded"), RateLimited, True),
        (RuntimeError("Too many requests, slow down"), RateLimited, True),
        (RuntimeError("invalid api key"), RuntimeError, False),
        (RuntimeError("order 429 of 529 is lost"), RuntimeError, False),
        (RuntimeError("maximum context length is 4290 tokens"), ContextTooLong, False),
        (
            Answered(429, "prompt is too long: 204298 tokens > 200000 maximum"),
            ContextTooLong,
            False,
        ),
        (Refused("no"), Refused, False),
        (Incomplete("cut"), Incomplete, True),
    ],
    ids=str,
)
def test_whether_asking_again_may_help(
    error: Exception, kind: type[Exception], is_asked_again: bool
) -> None:
    failure = failure_of("m", error)

    assert type(failure) is kind
    assert is_retryable(failure) is is_asked_again


async def test_what_no_repetition_helps_is_raised_at_once() -> None:
    context = asking()
    provider = ScriptedProvider([Answered(400, "tool_result without tool_use")])

    _, error = await told_until_it_fails(context, provider)

    assert isinstance(error, InvalidRequest)
    assert (len(provider.asked), context.slept) == (1, [])


async def test_a_request_that_is_too_long_is_not_sent_again_for_the_digits_in_its_refusal() -> None:
    context = asking()
    refused = RuntimeError("prompt is too long: 204298 tokens > 200000 maximum (429, 529)")
    provider = ScriptedProvider([refused])

    _, error = await told_until_it_fails(context, provider)

    assert isinstance(error, ContextTooLong)
    assert (len(provider.asked), context.slept) == (1, [])


SAID = b'data: {"choices":[{"index":0,"delta":{"content":"Sunny."},"finish_reason":"stop"}]}\n\n'
FINE = Answer([SAID, b"data: [DONE]\n\n"])


@pytest.mark.parametrize(
    "answer",
    [
        Answer(is_mute=True, breaks_off=True),
        Answer([b'data: {"choices":[{"index":0,"delta":{}}]}\n\n'], breaks_off=True),
        Answer([b'{"error":{"message":"slow down"}}'], 429, headers={"Retry-After": "3"}),
        Answer([b"<html>busy</html>"], 503, kind="text/html", headers={"Retry-After": "3"}),
    ],
    ids=["no answer", "half an answer", "too many requests", "not there"],
)
async def test_a_real_service_that_fails_is_asked_again_after_a_wait(answer: Answer) -> None:
    context = asking()

    async with serving(answer, FINE) as service:
        llm = LLM().model("openai/x").base_url(service.url).api_key("secret-key")
        events = [each async for each in llm.run(context=context)]

    assert texts(events) == "Sunny."
    assert len(service.asked) == 2
    [slept] = context.slept
    assert slept == 3.0 if answer.headers else 0.5 <= slept <= 0.625


class Breaking:
    """A provider whose replies break off in the middle, but for the last."""

    model = "breaking"

    def __init__(self, *errors: Exception, whole: str = "Hello world") -> None:
        self.count = 0
        self._errors = errors
        self._whole = whole

    async def stream(self, **_: Any) -> AsyncIterator[Any]:
        """Yield half of it and raise, or all of it."""
        self.count += 1
        yield self._whole[: len(self._whole) // 2]
        if self.count <= len(self._errors):
            raise self._errors[self.count - 1]
        yield self._whole[len(self._whole) // 2 :]
        yield turn_of(self._whole)


async def test_what_was_shown_of_a_reply_that_broke_off_is_voided() -> None:
    context = asking()

    events = await told(context, Breaking(ConnectionError("gone")))

    place = events.index({"type": "reset", "reason": "the reply broke off: Unavailable"})
    assert texts(events[:place]) == "Hello"
    assert texts(events[place:]) == "Hello world"
    assert [each.raw()["content"] for each in context.messages[1:]] == [
        [{"type": "text", "text": "Hello world"}]
    ]


async def test_where_nothing_was_shown_nothing_is_voided() -> None:
    events = await told(asking(), ScriptedProvider([Overloaded("busy"), "Sunny."]))

    assert of(events, "reset") == []


async def test_what_was_shown_before_a_final_failure_is_kept() -> None:
    context = asking()

    events, error = await told_until_it_fails(context, Breaking(Answered(400)))

    assert isinstance(error, InvalidRequest)
    assert texts(events) == "Hello"
    [_, partial] = await kept(context)
    assert partial["content"] == [{"type": "text", "text": "Hello\n\n[…]"}]


async def test_only_the_last_of_several_broken_replies_is_kept() -> None:
    context = asking()

    _, error = await told_until_it_fails(context, Breaking(*[ConnectionError("gone")] * 11))

    assert isinstance(error, Unavailable)
    assert len(await kept(context)) == 2


class Endless(Patient):
    """A run whose sleeps are over when it is told so."""

    async def sleep(self, duration: timedelta | float) -> None:
        """Sleep long enough for some signs of life."""
        await super().sleep(duration)
        await asyncio.sleep(BEAT.total_seconds() * 4)


async def test_signs_of_life_come_while_a_model_is_waited_for() -> None:
    given = asking()
    context = Endless(messages=Messages(given.messages), sessions=given.sessions)
    provider = ScriptedProvider([Overloaded("busy"), "Sunny."])

    events = await told(context, provider, heartbeat=BEAT)

    place = next(at for at, event in enumerate(events) if event not in ({}, PING))
    assert events[place]["step"].startswith("Model endpoint busy")
    assert PING in events[place:]


class Turnless:
    """A provider that ends its stream without a turn."""

    model = "turnless"

    def __init__(self) -> None:
        self.count = 0

    async def stream(self, **_: Any) -> AsyncIterator[Any]:
        """Yield some text."""
        self.count += 1
        yield "Hm."


async def test_a_provider_that_never_ends_its_reply_is_at_fault_and_not_asked_again() -> None:
    provider = Turnless()

    _, error = await told_until_it_fails(asking(), provider)

    assert isinstance(error, BadYield)
    assert provider.count == 1
    assert "yield one, last" in str(error)


async def test_each_reply_has_tries_of_its_own() -> None:
    context = asking()
    paused = Turn([{"type": "text", "text": "Hm."}], "pause_turn")
    provider = ScriptedProvider([Overloaded("busy"), paused, Overloaded("busy"), "Sunny."])

    events = await told(context, provider)

    assert [each["step"][-14:] for each in of(events, "step")] == ["(attempt 1/10)"] * 2
    assert len({each["id"] for each in of(events, "step")}) == 2
    assert others() == set()
