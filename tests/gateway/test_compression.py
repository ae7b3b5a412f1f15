"""The callback that shortens long results of tools: what it shortens, and what it gives back."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.gateway.compression import Compression
from tests.gateway.bodies_at_hand import (
    CHAT,
    MESSAGES,
    admitted,
    completion,
    gate,
    kwargs,
    message,
    plan,
    use,
)

NAME = "litellm_content_retrieve"
TOOL = {"name": NAME, "input_schema": {}}
LONG = "".join(f"line {n}\n" for n in range(500))
SHORT = "a short one"


def asked(*contents: Any, **others: Any) -> dict[str, Any]:
    """Return a request of Messages with a result of a tool for each content."""
    results = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": each}
        for n, each in enumerate(contents)
    ]
    return {"messages": [{"role": "user", "content": results}], **others}


def chat(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "tool", "tool_call_id": "t", "content": content}]}


def contents_in(request: dict[str, Any]) -> list[Any]:
    return [each["content"] for each in request["messages"][0]["content"]]


def key_in(request: dict[str, Any]) -> str:
    told = json.dumps(request["messages"], ensure_ascii=False)
    [key] = re.findall(r"with key '(\w+)'", told)
    return key


async def read(request: dict[str, Any], *arguments: dict[str, Any], surface: str = MESSAGES) -> Any:
    calls = [use(NAME, each, f"toolu_{n}") for n, each in enumerate(arguments)]
    reply = message(*calls) if surface == MESSAGES else completion(*calls)
    told = kwargs(surface, request)
    planned = await plan(Compression(longest=200, piece=1000), reply, calls, told)
    turns = planned.request_patch.messages[1:]
    answers = turns[1]["content"] if surface == MESSAGES else turns[1:]
    return [each["content"] for each in answers]


async def test_a_long_result_is_shortened_to_its_beginning_its_length_and_a_key() -> None:
    request = asked(LONG, SHORT, tools=[{"name": "ls"}])

    sent = await admitted(Compression(longest=1000), request)

    long, short = contents_in(sent)
    assert long.startswith(LONG[:100])
    assert f"beginning of {len(LONG)} characters" in long
    assert (len(long) < 400, short) == (True, SHORT)
    assert [each["name"] for each in sent["tools"]] == ["ls", NAME]
    assert contents_in(request) == [LONG, SHORT]


async def test_a_chat_completion_is_shortened_in_its_own_shape() -> None:
    sent = await admitted(Compression(longest=1000), chat(LONG), "acompletion")

    assert len(sent["messages"][0]["content"]) < 400
    [tool] = sent["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", NAME)


async def test_each_text_of_a_result_counts_alone_and_pictures_stay() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "x" * 5000}}
    parts = [{"type": "text", "text": LONG}, picture, {"type": "text", "text": SHORT}]

    sent = await admitted(Compression(longest=1000), asked(parts))

    [[long, shown, short]] = contents_in(sent)
    assert (len(long["text"]) < 400, shown, short["text"]) == (True, picture, SHORT)


@pytest.mark.parametrize(
    "request_",
    [
        asked(SHORT),
        asked(None),
        {"messages": [{"role": "user", "content": LONG}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG}]}]},
        {"messages": [{"role": "assistant", "content": LONG}]},
        {"messages": "odd"},
        {},
        asked(LONG, tool_choice={"type": "none"}),
        asked(LONG, tool_choice="none"),
        asked(LONG, tools=[TOOL]),
    ],
)
async def test_what_is_not_to_be_shortened_is_left_alone(request_: dict[str, Any]) -> None:
    assert await admitted(Compression(longest=1000), request_) is request_


async def test_a_small_request_is_left_alone_where_a_trigger_says_so() -> None:
    small, large = asked(LONG), asked(LONG, LONG, LONG)
    callback = Compression(longest=1000, trigger=2 * len(LONG) // 4)

    assert await admitted(callback, small) is small
    assert await admitted(callback, large) is not large


async def test_nothing_is_shortened_to_something_longer() -> None:
    request = asked("x" * 60)

    assert await admitted(Compression(longest=50), request) is request


async def test_its_own_calls_alone_are_taken_up() -> None:
    ours, other = use(NAME, {"key": "k"}), use("ls", {}, "toolu_2")

    assert await gate(Compression(), message(ours, other), [TOOL]) == (True, {"tool_calls": [ours]})
    assert await gate(Compression(), message(ours), [{"name": "ls"}]) == (False, {})
    assert await gate(Compression(), message(other), [TOOL]) == (False, {})


@pytest.mark.parametrize(("surface", "request_"), [(MESSAGES, asked(LONG)), (CHAT, chat(LONG))])
async def test_another_process_finds_the_text_in_the_callers_request(
    surface: str, request_: dict[str, Any]
) -> None:
    call_type = "acompletion" if surface == CHAT else MESSAGES
    sent = await admitted(Compression(longest=200), request_, call_type)
    key = key_in(sent)

    [text] = await read(request_, {"key": key}, surface=surface)
    [again] = await read(request_, {"key": key}, surface=surface)

    told = f"[characters 0 to 1000 of {len(LONG)}; to read on, call again with offset 1000]"
    assert text == again == f"{LONG[:1000]}\n\n{told}"


LONG_TEXTS = st.tuples(st.text(min_size=1, max_size=20), st.integers(800, 2500)).map(
    lambda told: (told[0] * told[1])[: told[1]]
)


@given(LONG_TEXTS)
async def test_piece_by_piece_the_whole_text_comes_back(text: str) -> None:
    request = asked([{"type": "text", "text": text}])
    key = key_in(await admitted(Compression(longest=200), request))
    offsets = range(0, len(text), 1000)

    pieces = await read(request, *({"key": key, "offset": each} for each in offsets))

    assert "".join(each[:1000] for each in pieces[:-1]) + pieces[-1] == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "nope"}, "[compressed content key 'nope' not found]"),
        ({}, "No retrieval key provided."),
        ({"key": ""}, "No retrieval key provided."),
        ({"key": 5}, "No retrieval key provided."),
    ],
)
async def test_a_key_that_is_none_is_said(arguments: dict[str, Any], said: str) -> None:
    assert await read(asked(LONG), arguments) == [said]


@pytest.mark.parametrize("offset", [-5, True, "9", None, float("nan"), float("inf")])
async def test_an_offset_that_is_none_is_the_beginning(offset: Any) -> None:
    key = key_in(await admitted(Compression(longest=200), asked(LONG)))

    [text] = await read(asked(LONG), {"key": key, "offset": offset})

    assert text.startswith("line 0\n")


async def test_an_offset_past_the_end_is_said() -> None:
    key = key_in(await admitted(Compression(longest=200), asked(LONG)))

    [text] = await read(asked(LONG), {"key": key, "offset": 99_999})

    assert text == f"[there is nothing at 99999: the text has {len(LONG)} characters]"


async def test_a_request_that_is_not_there_has_no_texts() -> None:
    assert await read({}, {"key": "k"}) == ["[compressed content key 'k' not found]"]


def test_its_name_is_one_that_no_caller_sees() -> None:
    assert Compression.server_fulfilled_tool_names == {NAME}
