"""What Chat Completions replies cost: told, told in part, or never."""

from typing import Any

import orjson
import pytest

from loops.errors import InvalidRequest
from loops.fold import fold
from loops.messages import Usage
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.asking import end_of, model_at, reply, seen_of
from tests.loops.providers.service import Answer, serving

JSON = "application/json"
SAID = wires.said("a") + wires.chunk(reason="stop")
KNOWN = Usage(input_tokens=10, output_tokens=5)


def counts(told: Any) -> bytes:
    return wires.data({"choices": [], "usage": told})


CACHED = {"prompt_tokens_details": {"cached_tokens": 60}}


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (b"", None),
        (counts(None), None),
        (counts({}), None),
        (counts({"prompt_tokens": None, "completion_tokens": None}), None),
        (counts("many"), None),
        (wires.usage(), KNOWN),
        (wires.usage() + counts({}), KNOWN),
        (wires.usage() + counts(None), KNOWN),
        (wires.usage() + counts({"prompt_tokens": None, "completion_tokens": 5}), KNOWN),
        (wires.usage(10, 1) + wires.usage(10, 3) + wires.usage(), KNOWN),
        (counts({"completion_tokens": 5}), Usage(output_tokens=5)),
        (wires.usage(100, 7, **CACHED),
         Usage(input_tokens=40, output_tokens=7, cache_read_tokens=60)),
        (wires.usage(100, 7, cached_tokens=60),
         Usage(input_tokens=40, output_tokens=7, cache_read_tokens=60)),
        (wires.usage(100, 7, **CACHED) + wires.usage(100, 9),
         Usage(input_tokens=40, output_tokens=9, cache_read_tokens=60)),
        (wires.usage(50, 7, **CACHED),
         Usage(input_tokens=0, output_tokens=7, cache_read_tokens=50)),
        (wires.usage(10, 5, prompt_tokens_details=None), KNOWN),
    ],
    ids=["never", "null", "nothing", "nulls", "no object", "once", "then nothing", "then null",
         "then in part", "as it grows", "in part", "with a cache", "with a cache, elsewhere",
         "with a cache, once", "more cached than asked", "details of null"],
)  # fmt: skip
async def test_what_a_reply_cost_is_what_was_told_last(told: bytes, usage: Usage | None) -> None:
    events = await reply("openai", Answer([SAID + told + wires.DONE]))

    assert end_of(events).usage == usage


REFUSALS: dict[str, tuple[int, Any]] = {
    "in OpenAI's words": (400, {"error": {"message": "Unrecognized argument: stream_options"}}),
    "in a sentence": (400, {"message": "stream_options is not supported"}),
    "in a list of faults": (422, {"detail": [
        {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "not permitted"}]}),
    "in plain text": (400, b"unknown field stream_options"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_service_that_does_not_tell_is_asked_without_and_only_once(name: str) -> None:
    status, told = REFUSALS[name]
    body = told if isinstance(told, bytes) else orjson.dumps(told)
    refusal = Answer([body], status=status, kind=JSON)
    silent = set[str]()
    async with serving(refusal, Answer([SAID + wires.DONE])) as service:
        replies = [await seen_of(model_at(service, "openai", silent=silent)) for _ in range(3)]

    assert [fold(events).text for events, _ in replies] == ["a"] * 3
    assert [end_of(events).usage for events, _ in replies] == [None] * 3
    asked = ["stream_options" in each.body for each in service.asked]
    assert asked == [True, False, False, False]


async def test_that_one_service_does_not_tell_says_nothing_of_another() -> None:
    silent = set[str]()
    refusal = Answer([b"no stream_options"], status=400, kind=JSON)
    whole = Answer([SAID + wires.usage() + wires.DONE])
    async with serving(refusal, whole) as one, serving(whole) as other:
        await seen_of(model_at(one, "openai", silent=silent))
        events, _ = await seen_of(model_at(other, "openai", silent=silent))

    assert end_of(events).usage == KNOWN
    assert ["stream_options" in each.body for each in other.asked] == [True]


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_refusal_that_the_option_is_not_to_blame_for_is_one(refusals: int) -> None:
    other = Answer([b"no such model"], status=400, kind=JSON)
    option = Answer([b"no stream_options"], status=400, kind=JSON)
    async with serving(*[other] if refusals == 1 else [option, other]) as service:
        _, error = await seen_of(model_at(service, "openai"))

    assert isinstance(error, InvalidRequest)
    assert "no such model" in str(error)
    assert len(service.asked) == refusals
