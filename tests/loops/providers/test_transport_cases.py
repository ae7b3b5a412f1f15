"""Services that fall silent, and peers that close: case by case, for both protocols, over HTTP."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from loops.errors import Incomplete, Timeout, Unavailable
from loops.fold import fold
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.asking import VENDORS, failing, reply
from tests.loops.providers.service import Answer

IDLE = timedelta(milliseconds=200)

TEXT = a.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HALF = a.event("content_block_delta", index=0, delta={"type": "text_delta", "text": "half"})
EMPTY = a.event("content_block_delta", index=0, delta={"type": "text_delta", "text": ""})
OPEN = a.started() + TEXT
NEWS, COMMENT, LINE = a.event("heartbeat", at=1), b": alive\n\n", b"\n"
PING = a.event("ping")
FIRST = o.chunk({"role": "assistant", "content": ""})
NOTHING = o.chunk({"content": ""})
NO_CALL = o.calls(o.call(0, "c", "f", ""))

SIGNS: Mapping[str, tuple[str, bytes, bytes]] = {
    "pings from the start": ("anthropic", b"", PING),
    "pings before text": ("anthropic", a.started(), PING),
    "pings after text": ("anthropic", OPEN + HALF, PING),
    "empty deltas of Anthropic's": ("anthropic", OPEN, EMPTY),
    "news of no known kind": ("anthropic", OPEN, NEWS),
    "comments to Anthropic's": ("anthropic", OPEN, COMMENT),
    "empty lines": ("anthropic", OPEN, LINE),
    "empty deltas from the start": ("openai", b"", NOTHING),
    "empty deltas before text": ("openai", FIRST, NOTHING),
    "empty deltas after text": ("openai", FIRST + o.said("half"), NOTHING),
    "roles again and again": ("openai", FIRST, FIRST),
    "deltas without a content": ("openai", FIRST, o.chunk({"content": None})),
    "deltas that are none": ("openai", FIRST, o.data({"choices": [{"index": 0, "delta": None}]})),
    "chunks without a choice": ("openai", FIRST, o.data({"choices": []})),
    "what it costs so far": ("openai", FIRST, o.usage()),
    "a call that does not grow": ("openai", FIRST + NO_CALL, NO_CALL),
    "comments to OpenAI's": ("openai", FIRST, COMMENT),
}


@pytest.mark.parametrize("name", SIGNS)
async def test_signs_of_life_alone_end_in_a_timeout(name: str) -> None:
    vendor, first, sign = SIGNS[name]
    chunks = [first, *[sign] * 100] if first else [sign] * 100

    seen, error = await failing(vendor, Answer(chunks, pause=0.02, hangs=True), idle=IDLE)

    assert isinstance(error, Timeout)
    assert "signs of life" in str(error)
    assert fold(seen).text == ("half" if b"half" in first else "")


GOING_ON: Mapping[str, tuple[list[bytes], bytes]] = {
    "anthropic": ([OPEN, *[PING, HALF] * 12], a.event("content_block_stop", index=0) + a.ended()),
    "openai": ([FIRST, *[NOTHING, o.said("half")] * 12], o.chunk(reason="stop") + o.DONE),
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_whoever_goes_on_is_waited_for(vendor: str) -> None:
    chunks, rest = GOING_ON[vendor]

    events = await reply(vendor, Answer([*chunks, rest], pause=0.02), idle=IDLE)

    assert fold(events).text == "half" * 12


async def test_a_refusal_that_goes_on_is_waited_for() -> None:
    said = [o.chunk({"refusal": "no"})] * 24

    _, error = await failing(
        "openai", Answer([*said, o.chunk(reason="stop") + o.DONE], pause=0.02), idle=IDLE
    )

    assert not isinstance(error, Timeout)
    assert "no" * 24 in str(error)


PARTS: Mapping[str, Mapping[str, bytes]] = {
    "before all": {"anthropic": b"", "openai": b""},
    "before text": {"anthropic": a.started(), "openai": FIRST},
    "in text": {"anthropic": OPEN + HALF, "openai": FIRST + o.said("half")},
    "in a call": {
        "anthropic": a.started() + a.called(0, "f", '{"x"')[:-60],
        "openai": FIRST + o.calls(o.call(0, "c", "f", '{"x"')),
    },
    "after all of its content": {
        "anthropic": a.started() + a.said(0, "a"),
        "openai": FIRST + o.said("a"),
    },
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("part", ["before the status", *PARTS])
async def test_silence_ends_in_a_timeout(part: str, vendor: str) -> None:
    chunks = [PARTS[part][vendor]] if part in PARTS else []

    answer = Answer(chunks, is_mute=part not in PARTS, hangs=True)
    _, error = await failing(vendor, answer, idle=IDLE)

    assert isinstance(error, Timeout)
    assert error.retryable


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("part", ["before the status", *PARTS])
async def test_a_peer_that_closes_before_the_end_may_be_asked_again(part: str, vendor: str) -> None:
    chunks = [PARTS[part][vendor]] if part in PARTS else []

    _, error = await failing(vendor, Answer(chunks, is_mute=part not in PARTS, breaks_off=True))

    assert isinstance(error, (Unavailable, Incomplete))
    assert error.retryable


WHOLE: Mapping[str, bytes] = {"anthropic": a.reply(a.said(0, "a")), "openai": o.reply(o.said("a"))}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("breaks_off", "hangs"), [(True, False), (False, True), (False, False)])
async def test_what_becomes_of_a_peer_after_the_end_does_not_matter(
    vendor: str, breaks_off: bool, hangs: bool
) -> None:
    events = await reply(vendor, Answer([WHOLE[vendor]], breaks_off=breaks_off, hangs=hangs))

    assert fold(events).text == "a"


@pytest.mark.parametrize("breaks_off", [True, False], ids=["broken", "ended"])
@pytest.mark.parametrize("place", [b"event: message_delta", b"event: message_stop"])
async def test_nothing_but_its_last_event_is_the_end_of_anthropics(
    place: bytes, breaks_off: bool
) -> None:
    part = WHOLE["anthropic"][: WHOLE["anthropic"].index(place)]

    _, error = await failing("anthropic", Answer([part], breaks_off=breaks_off))

    assert isinstance(error, (Unavailable, Incomplete))
    assert error.retryable
