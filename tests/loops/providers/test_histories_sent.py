"""Broken histories, as they reach the services: what no service takes never goes out."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import loops as ai
from loops.errors import InvalidRequest
from loops.history import UNAVAILABLE
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from tests.loops.providers import anthropic_wires, openai_wires
from tests.loops.providers.service import Answer, serving

Told = dict[str, Any]
VENDORS = ["anthropic", "openai"]
ANSWERS = {
    "anthropic": anthropic_wires.reply(anthropic_wires.said(0, "so")),
    "openai": openai_wires.reply(openai_wires.said("so")),
}


async def sent(vendor: str, history: Sequence[Any]) -> list[Told]:
    """Return the messages that the service gets when a model is asked with this history."""
    async with serving(Answer([ANSWERS[vendor]])) as service:
        given = {"base_url": service.url, "api_key": "k"}
        port = OpenAIModel("m", **given) if vendor == "openai" else _uncached(**given)
        async with ai.stream(port, history) as reply:
            [event async for event in reply]
    [asked] = service.asked
    return list(asked.body["messages"])


def _uncached(**given: Any) -> AnthropicModel:
    return AnthropicModel("m", **given, caches=False)


def asks(*ids: str) -> Told:
    calls = [{"type": "tool_use", "id": each, "name": "t", "input": {}} for each in ids]
    return {"role": "assistant", "content": calls}


def result(call: str, content: Any = "ok", **more: Any) -> Told:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def user(*parts: Any) -> Told:
    texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": "user", "content": texts}


LOST = result("a", UNAVAILABLE, is_error=True)

BROKEN: Mapping[str, tuple[list[Told], list[Told]]] = {
    "a user's text between call and result": (
        [user("hi"), asks("a"), user("wait"), user(result("a"))],
        [result("a"), {"type": "text", "text": "wait"}],
    ),
    "a user's text before the result, in one message": (
        [user("hi"), asks("a"), user("wait", result("a"))],
        [result("a"), {"type": "text", "text": "wait"}],
    ),
    "results in two messages": (
        [user("hi"), asks("a", "b"), user(result("a")), user(result("b"))],
        [result("a"), result("b")],
    ),
    "results in two messages, with text between": (
        [user("hi"), asks("a", "b"), user(result("b")), user("and"), user(result("a"), "so")],
        [result("a"), result("b"), {"type": "text", "text": "and"}, {"type": "text", "text": "so"}],
    ),
    "a result of an unknown id": (
        [user("hi"), asks("a"), user(result("a"), result("z"))],
        [result("a")],
    ),
    "a result of an unknown id alone": ([user("hi"), asks("a"), user(result("z"))], [LOST]),
    "a result twice": ([user("hi"), asks("a"), user(result("a"), result("a"))], [result("a")]),
    "no result": (
        [user("hi"), asks("a"), user("go on")],
        [LOST, {"type": "text", "text": "go on"}],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_results_come_first_in_one_message_and_strays_are_dropped(name: str) -> None:
    history, content = BROKEN[name]

    told = await sent("anthropic", history)

    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert told[2]["content"] == content


@pytest.mark.parametrize("name", BROKEN)
async def test_results_follow_their_calls_before_anything_else(name: str) -> None:
    history, content = BROKEN[name]

    told = await sent("openai", history)

    results = [part for part in content if part["type"] == "tool_result"]
    texts = [part["text"] for part in content if part["type"] == "text"]
    assert [m["tool_call_id"] for m in told[2:] if m["role"] == "tool"] == [
        each["tool_use_id"] for each in results
    ]
    assert [m["content"] for m in told[2 + len(results) :]] == texts
    assert {m["role"] for m in told[2 + len(results) :]} <= {"user"}


@pytest.mark.parametrize(
    "name", [each for each in BROKEN if each not in {"results in two messages"}]
)
async def test_what_is_mended_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="loopmill.history"):
        await sent("anthropic", BROKEN[name][0])

    [record] = caplog.records
    assert "mended" in record.getMessage()


async def test_a_picture_of_a_result_never_stands_between_results() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "QQ=="}
    picture = result("a", [{"type": "image", "source": source}])

    told = await sent("openai", [user("hi"), asks("a", "b"), user(picture), user(result("b"))])

    assert [message["role"] for message in told[2:]] == ["tool", "tool", "user"]


BLANK: Mapping[str, list[Any]] = {
    "nothing beside a call": [{"type": "text", "text": ""}, *asks("a")["content"]],
    "spaces beside a call": [{"type": "text", "text": "  "}, *asks("a")["content"]],
    "nothing after a call": [*asks("a")["content"], {"type": "text", "text": "\n"}],
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", BLANK)
async def test_empty_text_beside_a_call_never_goes_out(name: str, vendor: str) -> None:
    says = {"role": "assistant", "content": BLANK[name]}

    told = (await sent(vendor, [user("hi"), says, user(result("a"))]))[1]

    if vendor == "anthropic":
        assert [part["type"] for part in told["content"]] == ["tool_use"]
    else:
        assert (told["content"], len(told["tool_calls"])) == (None, 1)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    "said",
    [user(""), user("  "), user(), user(" ", "\n"), {"role": "assistant", "content": ""},
     {"role": "assistant", "content": []}, {"role": "system", "content": " "},
     {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]}],
    ids=["nothing", "spaces", "no part", "blank parts", "an empty reply", "a reply without parts",
         "an empty system", "only thinking that nobody signed"],
)  # fmt: skip
async def test_a_message_that_says_nothing_never_goes_out(said: Told, vendor: str) -> None:
    told = await sent(vendor, [user("hi"), said, user("there?")])

    assert "hi" in str(told[0])
    assert "there?" in str(told[-1])
    assert all(message["role"] == "user" and message["content"] for message in told)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("history", [[], [user("")], [user(" \n"), user()]], ids=str)
async def test_who_says_nothing_at_all_is_refused_before_the_service(
    history: list[Told], vendor: str
) -> None:
    with pytest.raises(InvalidRequest, match="without a message"):
        await sent(vendor, history)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    "content",
    ["", " ", [{"type": "text", "text": ""}], [{"type": "text", "text": " "}], [{"type": "text"}],
     []],
    ids=["no text", "spaces", "an empty part", "a blank part", "a part without text", "no part"],
)  # fmt: skip
async def test_a_result_that_says_nothing_is_a_result_without_empty_text(
    content: Any, vendor: str
) -> None:
    [*_, told] = await sent(vendor, [user("hi"), asks("a"), user(result("a", content))])

    if vendor == "anthropic":
        [block] = told["content"]
        assert block["tool_use_id"] == "a"
        assert all(part.get("text") for part in block["content"] if isinstance(part, dict))
    else:
        assert (told["role"], told["content"].strip()) == ("tool", "")


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("said", "told"),
    [("half \ud83d", "half \ufffd"), ("\ud83d\ude00 whole", "😀 whole"), ("a\0b", "a\ufffdb"),
     ("esc \x1b[0m", "esc \x1b[0m")],
    ids=["half a character", "two halves", "a NUL", "another control character"],
)  # fmt: skip
async def test_what_poisons_a_session_is_replaced_on_the_way_out(
    said: str, told: str, vendor: str
) -> None:
    call = {"type": "tool_use", "id": "a", "name": "t", "input": {"x": said}}
    says = {"role": "assistant", "content": [{"type": "text", "text": said}, call]}

    messages = await sent(vendor, [user(said), says, user(result("a", said))])

    assert str(messages).count(repr(told)[1:-1]) >= 3
    assert not any(each in str(messages) for each in ("\\ud83d", "\\x00"))
