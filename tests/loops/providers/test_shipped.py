"""Agents that ask real wires: the whole way from a name to an answer, in one process."""

from typing import Any

import pytest

import loops as ai
from loops import errors
from tests.loops.providers import anthropic_wires, openai_wires
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, Service, serving


@ai.tool
async def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y


def anthropic_answers() -> list[Answer]:
    asks = anthropic_wires.reply(
        anthropic_wires.said(0, "I add"),
        anthropic_wires.called(1, "add", '{"x": 1', ', "y": 2}'),
        anthropic_wires.called(2, "add", '{"x": 3, "y": 4}', call_id="toolu_2"),
        stop_reason="tool_use",
    )
    return [Answer([asks]), Answer([anthropic_wires.reply(anthropic_wires.said(0, "3 and 7"))])]


def openai_answers() -> list[Answer]:
    calls = openai_wires.calls(
        call(0, "a", "add", '{"x": 1, "y": 2}'), call(0, "b", "add", '{"x": 3, "y": 4}')
    )
    asks = openai_wires.reply(openai_wires.said("I add"), calls, reason="stop")
    return [Answer([asks]), Answer([openai_wires.reply(openai_wires.said("3 and 7"))])]


def point_to(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor, path in (("ANTHROPIC", ""), ("OPENAI", "/v1")):
        monkeypatch.setenv(f"{vendor}_API_KEY", "sk-canary")
        monkeypatch.setenv(f"{vendor}_BASE_URL", service.url + path)


@pytest.mark.parametrize(
    ("model", "answers"),
    [("anthropic/claude-x", anthropic_answers()), ("openai/gpt-x", openai_answers())],
)
async def test_an_agent_answers_by_a_model_that_is_named(
    model: str, answers: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ai.App(agents={"adder": ai.Agent(model=model, system="Add.", tools=[add])})
    async with serving(*answers) as service:
        point_to(service, monkeypatch)
        outcome = await app.run("adder", "what is 1 + 2, and 3 + 4?")

    told: dict[str, Any] = service.asked[1].body
    assert outcome.output == "3 and 7"
    assert [str(told).count(each) for each in ("'3'", "'7'")] == [1, 1]
    assert outcome.usage is not None
    assert (outcome.usage.output_tokens or 0) > 0


async def test_arguments_that_are_no_json_are_told_to_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks = anthropic_wires.reply(anthropic_wires.called(0, "add", "{x: 1}"), stop_reason="tool_use")
    ends = anthropic_wires.reply(anthropic_wires.said(0, "sorry"))
    app = ai.App(agents={"adder": ai.Agent(model="anthropic/claude-x", tools=[add])})
    async with serving(Answer([asks]), Answer([ends])) as service:
        point_to(service, monkeypatch)
        outcome = await app.run("adder", "add")

    [result] = service.asked[1].body["messages"][-1]["content"]
    assert outcome.output == "sorry"
    assert result["is_error"] is True
    assert "not valid" in result["content"]


async def test_a_call_that_was_cut_is_never_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    performed: list[int] = []

    @ai.tool
    async def note(x: int) -> None:
        """Note a number."""
        performed.append(x)

    whole = anthropic_wires.reply(anthropic_wires.called(0, "note", '{"x":', "1}"))
    cut = whole[: whole.index(b"content_block_stop") - 10]
    app = ai.App(agents={"noter": ai.Agent(model="anthropic/claude-x", tools=[note])})
    async with serving(Answer([cut], breaks_off=True)) as service:
        point_to(service, monkeypatch)
        with pytest.raises(errors.ProviderError) as caught:
            await app.run("noter", "note")

    assert caught.value.retryable
    assert performed == []
