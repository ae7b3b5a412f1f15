"""The document on the agentic-loop hook, in this process: each of its blocks and tables."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import loops.callbacks as registered
from loops.callbacks import (
    AgenticLoopPlan,
    AgenticLoopRequestPatch,
    acompletion,
    amessages,
)
from tests.documents.agentic_loop import (
    DOCUMENT,
    MY_TOOL,
    chat_callback,
    class_block,
    configuration_block,
    document_callback,
    instance_block,
    planning,
    registration_block,
)
from tests.documents.blocks import module_of, python_blocks
from tests.gateway.served import SHAPE, calls_again, calls_each_tool
from tests.gateway.upstream import Script, Told, Upstream, call, says, upstream
from worker.configuration import read_configuration

pytestmark = pytest.mark.documents

ASKED = [{"role": "user", "content": "look x up"}]
SAME_AGAIN = says("again", calls=[call(MY_TOOL, q="x")])

surfaces = pytest.mark.parametrize("surface", ["messages", "chat"])
protocols = pytest.mark.parametrize("protocol", ["anthropic", "openai"])


class Asking:
    """Asks a provider of one protocol in the words of either, in this process."""

    def __init__(self, up: Upstream, protocol: str = "anthropic") -> None:
        self.up = up
        url = up.url if protocol == "anthropic" else up.openai_url
        self._model = {"model": f"{protocol}/first", "api_base": url, "api_key": "k"}

    async def ask(self, surface: str, *callbacks: Any, **more: Any) -> Any:
        told = {**self._model, "messages": ASKED, **more}
        if callbacks:
            told["callbacks"] = list(callbacks)
        if surface == "chat":
            function = {"name": MY_TOOL, "parameters": SHAPE}
            return await acompletion(tools=[{"type": "function", "function": function}], **told)
        tool = {"name": MY_TOOL, "input_schema": SHAPE}
        return await amessages(max_tokens=100, tools=[tool], **told)

    async def stream(self, surface: str, *callbacks: Any, **more: Any) -> list[Any]:
        return [chunk async for chunk in await self.ask(surface, *callbacks, stream=True, **more)]


@pytest.fixture
async def up() -> AsyncIterator[Upstream]:
    """A provider of both protocols, which calls each tool once."""
    async with upstream(calls_each_tool) as up:
        yield up


def plays(up: Upstream, script: Script | Told) -> Asking:
    up.script = script if callable(script) else lambda _: script
    return Asking(up)


def said(answer: Any) -> str:
    """The text of an answer, whatever its protocol."""
    return "".join(block["text"] for block in answer.content if block["type"] == "text")


def reason(answer: Any) -> str:
    """Why it ended, in the words of its protocol."""
    return str(answer.get("stop_reason") or answer["choices"][0]["finish_reason"])


def calls_of(answer: Any) -> list[Any]:
    return [block for block in answer.content if block["type"] == "tool_use"]


def watching(seen: list[Any], name: str = "_agentic_loop_depth") -> Any:
    """The document's callback, which writes down what the `kwargs` of its gate say of the name."""
    base = type(document_callback())

    async def gate(self: Any, **told: Any) -> Any:
        seen.append(told["kwargs"].get(name))
        return await base.async_should_run_agentic_loop(self, **told)

    return type("Watching", (base,), {"async_should_run_agentic_loop": gate})()


ENDED = {"messages": "end_turn", "chat": "stop"}


# -- the blocks


@surfaces
@protocols
async def test_the_documents_class_answers_its_call(
    up: Upstream, surface: str, protocol: str
) -> None:
    answer = await Asking(up, protocol).ask(surface, document_callback())

    assert (said(answer), reason(answer)) == ("found it", ENDED[surface])
    assert "result for {'q': 'x'}" in str(up.requests[1].body["messages"][-1])


@protocols
async def test_the_chats_builder_stands_instead_of_the_other(up: Upstream, protocol: str) -> None:
    answer = await Asking(up, protocol).ask("chat", chat_callback())

    assert (said(answer), reason(answer)) == ("found it", "stop")
    assert "result for {'q': 'x'}" in str(up.requests[1].body["messages"][-1])


@pytest.fixture
def unregistered() -> Iterator[None]:
    """What a program registers is forgotten when the test is over."""
    before, registered.callbacks = registered.callbacks, []
    yield
    registered.callbacks = before


@surfaces
async def test_a_program_registers_an_instance(
    up: Upstream, unregistered: None, surface: str
) -> None:
    module_of(f"{class_block()}\n{registration_block()}", "a_program")

    answer = await Asking(up).ask(surface)

    assert [type(each).__name__ for each in registered.callbacks] == ["MyToolCallback"]
    assert said(answer) == "found it"


def test_a_configuration_names_an_instance_beside_it(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(f"{class_block()}\n{instance_block()}")
    file = tmp_path / "config.yaml"
    file.write_text(configuration_block())

    [callback] = read_configuration(file).gateway(file).callbacks

    assert type(callback).__name__ == "MyToolCallback"


def test_nothing_but_import_lines_is_changed() -> None:
    source, registration, instance = python_blocks(DOCUMENT)

    kept = source[source.index("MY_TOOL") :]
    assert class_block().endswith(kept)
    assert all(line.startswith("from ") for line in source.splitlines()[:2])
    assert registration_block().endswith(registration.partition("\n")[2])
    assert instance_block() == instance
    assert yaml.safe_load(configuration_block()) == {
        "litellm_settings": {"callbacks": ["my_module.my_tool_callback"]}
    }


# -- streams


async def test_a_stream_has_a_second_message(up: Upstream) -> None:
    events = await Asking(up).stream("messages", document_callback())

    starts = [event for event in events if event["type"] == "message_start"]
    stops = [event for event in events if event["type"] == "message_stop"]
    assert (len(starts), len(stops)) == (2, 2)
    assert events[-1] == {"type": "message_stop"}


async def test_a_stream_of_a_completion_asks_no_callback(up: Upstream) -> None:
    depths: list[Any] = []

    chunks = await Asking(up).stream("chat", watching(depths))

    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert (depths, len(up.requests)) == ([], 1)


@surfaces
@pytest.mark.parametrize("mode", ["merged", "hold"])
async def test_any_other_stream_shows_no_call(up: Upstream, surface: str, mode: str) -> None:
    chunks = await Asking(up).stream(surface, document_callback(), streaming=mode)

    assert MY_TOOL not in str(chunks)
    assert len(up.requests) == 2
    starts = [chunk for chunk in chunks if "role" in str(chunk)]
    assert len(starts) == 1


# -- the fields of a plan

MINE = {"role": "assistant", "content": [{"type": "text", "text": "my own"}]}


@surfaces
async def test_an_override_is_the_answer(up: Upstream, surface: str) -> None:
    callback = planning(AgenticLoopPlan(response_override=MINE))

    answer = await Asking(up).ask(surface, callback)

    assert (said(answer), reason(answer)) == ("my own", ENDED[surface])
    assert len(up.requests) == 1


@surfaces
async def test_terminate_returns_the_reply_without_the_call(up: Upstream, surface: str) -> None:
    answer = await Asking(up).ask(surface, planning(AgenticLoopPlan(terminate=True)))

    assert (said(answer), calls_of(answer)) == ("let me look", [])
    assert reason(answer) == ENDED[surface]
    assert len(up.requests) == 1


@surfaces
async def test_a_plan_of_nothing_has_the_next_callback_asked(up: Upstream, surface: str) -> None:
    skips = planning(AgenticLoopPlan())

    answer = await Asking(up).ask(surface, skips, document_callback())
    left = await Asking(up).ask(surface, skips)

    assert said(answer) == "found it"
    assert (said(left), len(calls_of(left))) == ("let me look", 1)


@surfaces
async def test_a_patch_changes_what_it_names(
    up: Upstream, surface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", up.url)
    patch = AgenticLoopRequestPatch(
        model="anthropic/second",
        messages=[{"role": "user", "content": "another question"}],
        tools=[],
        max_tokens=7,
        optional_params={"temperature": 0.25},
        kwargs={"top_p": 0.5, "_mine": "kept"},
    )
    plan = AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)
    seen: list[Any] = []

    await Asking(up).ask(surface, planning(plan), watching(seen, "_mine"))

    _, body = [request.body for request in up.requests]
    assert (body["model"], body["max_tokens"], body.get("tools") or []) == ("second", 7, [])
    assert "another question" in str(body["messages"])
    assert (body["temperature"], body.get("top_p")) == (0.25, 0.5)
    assert seen == ["kept"]


# -- loop safety


@surfaces
async def test_a_model_is_asked_again_three_times(up: Upstream, surface: str) -> None:
    depths: list[Any] = []

    answer = await plays(up, calls_again).ask(surface, watching(depths))

    assert depths == [0, 1, 2, 3]
    assert len(up.requests) == 4
    assert (said(answer), calls_of(answer)) == ("look 3", [])
    assert reason(answer) == ENDED[surface]


@surfaces
@pytest.mark.parametrize("limit", [1, 5])
async def test_a_call_has_a_limit_of_its_own(up: Upstream, surface: str, limit: int) -> None:
    answer = await plays(up, calls_again).ask(surface, document_callback(), max_agentic_loops=limit)

    assert len(up.requests) == limit + 1
    assert calls_of(answer) == []


@surfaces
async def test_a_plan_sets_the_limit_of_its_request(up: Upstream, surface: str) -> None:
    patch = AgenticLoopRequestPatch(messages=ASKED, kwargs={"max_agentic_loops": 1})
    plan = AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)

    # Each round calls another question: only the limit ends it.
    asking = plays(up, lambda _: says(calls=[call(MY_TOOL, q=str(len(up.requests)))]))
    answer = await asking.ask(surface, planning(plan))

    assert len(up.requests) == 2
    assert calls_of(answer) == []


@surfaces
async def test_the_same_calls_end_the_loop(up: Upstream, surface: str) -> None:
    answer = await plays(up, SAME_AGAIN).ask(surface, document_callback())

    assert len(up.requests) == 2
    assert (said(answer), calls_of(answer)) == ("again", [])
    assert reason(answer) == ENDED[surface]


@pytest.mark.parametrize("mode", ["compatible", "merged", "hold"])
async def test_a_refused_call_is_not_the_last_of_a_stream(up: Upstream, mode: str) -> None:
    asking = plays(up, SAME_AGAIN)

    events = await asking.stream("messages", document_callback(), streaming=mode)

    reasons = [each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"]
    assert reasons[-1] == "end_turn"
    assert events[-1]["type"] == "message_stop"
    assert (MY_TOOL in str(events)) == (mode == "compatible")
