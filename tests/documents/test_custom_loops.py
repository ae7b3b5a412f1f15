"""The document on custom loops: its agent runs here as it is written."""

import asyncio
from pathlib import Path

import pytest

import loops as ai
from loops.providers.scripted import Piece, call, in_turn, scripted, text, until
from tests.documents.blocks import (
    SETTING,
    DocumentsMissingError,
    module_of,
    python_blocks,
    with_imports,
)
from tests.documents.running import KINDS, Observed, run_on

pytestmark = pytest.mark.documents

DOCUMENT = "002_769f8ca9d29a8df4.txt"
IMPORTS = "import loops as ai\nfrom collections.abc import AsyncGenerator\n"


def custom_agent() -> type[ai.Agent]:
    """The class that the document defines."""
    (block,) = python_blocks(DOCUMENT)
    made: type[ai.Agent] = module_of(with_imports(block, IMPORTS), "custom_loops").CustomAgent
    assert issubclass(made, ai.Agent)
    return made


def agent() -> ai.Agent:
    """The document's agent: its model goes on writing only when both of its tools have begun.

    Each tool waits for the other one, so the run ends only if they run side by side and begin
    before the message ends.
    """
    begun: set[str] = set()
    both = asyncio.Event()

    async def meet(name: str) -> None:
        begun.add(name)
        if len(begun) == 2:
            both.set()
        await both.wait()

    @ai.tool
    async def weather(city: str) -> str:
        await meet("weather")
        return f"sunny in {city}"

    @ai.tool
    async def clock(city: str) -> str:
        await meet("clock")
        return f"noon in {city}"

    calls = [call("weather", city="Rome"), call("clock", city="Rome")]
    first: list[Piece] = [*calls, until(both), text("Wait.")]
    return custom_agent()(model=scripted(in_turn(first, "Fine.")), tools=[weather, clock])


def results(observed: Observed) -> dict[str, object]:
    return {
        event.name: event.content
        for event in observed.events
        if isinstance(event, ai.events.ToolCallResult)
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_the_documents_agent_answers_its_calls(kind: str) -> None:
    observed = await run_on(kind, agent(), said="How is it in Rome?")

    assert results(observed) == {"weather": "sunny in Rome", "clock": "noon in Rome"}
    assert [message.role for message in observed.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert observed.messages[-1].text == "Fine."


@pytest.mark.parametrize("kind", KINDS)
async def test_its_tools_begin_before_the_message_ends(kind: str) -> None:
    observed = await run_on(kind, agent(), said="How is it in Rome?")

    kinds = [event.type for event in observed.events if event.turn == 1]
    calls_written = [number for number, each in enumerate(kinds) if each == "call.finished"]
    # The script writes its text only after both tools have begun, and ends only after its text.
    assert len(calls_written) == 2
    assert calls_written[-1] < kinds.index("text.started") < kinds.index("turn.finished")


@pytest.mark.parametrize("kind", KINDS)
async def test_its_events_are_those_of_the_whole_run(kind: str) -> None:
    observed = await run_on(kind, agent(), said="How is it in Rome?")

    second = [event.type for event in observed.events if event.turn == 2]
    assert second[0] == "turn.started"
    assert second[-1] == "turn.finished"
    assert {type(event) for event in observed.events} == {
        ai.events.StreamStart,
        ai.events.TextStart,
        ai.events.TextDelta,
        ai.events.TextEnd,
        ai.events.ToolStart,
        ai.events.ToolDelta,
        ai.events.ToolEnd,
        ai.events.ToolCallResult,
        ai.events.StreamEnd,
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_its_history_has_each_call_and_its_result(kind: str) -> None:
    observed = await run_on(kind, agent(), said="How is it in Rome?")

    _, asked, answered, _ = observed.messages
    assert [each.name for each in asked.tool_calls] == ["weather", "clock"]
    assert {each.id for each in asked.tool_calls} == {
        each.tool_use_id for each in answered.tool_results
    }


@pytest.mark.parametrize("size", [None, 0, 2])
async def test_its_buffer_can_be_set(size: int | None) -> None:
    made = agent()
    made.__class__.LOOP_BUFFER = size

    observed = await run_on("process", made, said="How is it in Rome?")

    assert observed.messages[-1].text == "Fine."


def test_nothing_but_import_lines_is_changed() -> None:
    (block,) = python_blocks(DOCUMENT)

    assert with_imports(block, IMPORTS).endswith(block)


def test_a_missing_folder_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "nowhere"))

    with pytest.raises(DocumentsMissingError, match=f"set {SETTING} to the folder"):
        python_blocks(DOCUMENT)
