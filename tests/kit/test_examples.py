"""The examples of the kit: what each is an example of, in process and on workers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from examples import planning, routing, state_machine
from loops.events import Custom
from tests.agents.runtimes import Outcome, Through

FOLDER = Path(__file__).resolve().parents[2] / "examples"

SHOWN = {
    "routing.py": "10,400,000 people.\nBecause blue light is scattered most.\n",
    "planning.py": (
        "plan:\n  1. measure both sides\n  2. multiply\n"
        "As planned. [measure]\n[measure]\nThe room has 20 square metres.\n"
    ),
    "state_machine.py": (
        "[ask] book\n[ask] to_quote\n[quote] price\n"
        "[quote] That is 90 EUR. Shall I book?\n"
        "[quote] Gladly. to_book\n[book] book\n[book] Your booking is A7.\n"
    ),
}


def shown(outcome: Outcome, name: str, field: str) -> list[Any]:
    """Return what was told in a field of the loop's own events of a name."""
    told = [each.value for each in outcome.of(Custom) if each.name == name]
    return [value[field] for value in told if value.get(field)]


def results(outcome: Outcome) -> list[str]:
    """Return what the model was told of its calls."""
    contents = [each["content"] for each in outcome.history if isinstance(each["content"], list)]
    blocks = [block for content in contents for block in content]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_is_a_program_that_needs_nothing(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, name], cwd=FOLDER, capture_output=True, text=True, timeout=30, check=False
    )

    assert (ran.stdout, ran.stderr) == (SHOWN[name], "")


@pytest.mark.parametrize(
    ("question", "model", "output"),
    [
        ("How many people live in Lima?", "small", "10,400,000 people."),
        ("Why is the sky blue?", "large", "Because blue light is scattered most."),
    ],
)
async def test_a_question_is_answered_by_the_model_that_it_needs(
    through: Through, question: str, model: str, output: str
) -> None:
    outcome = await through(routing.llm, question)

    assert outcome.output == output
    assert shown(outcome, "step", "step")[0] == f"Asking {model}"
    assert {each["usage"]["model"] for each in outcome.history if "usage" in each} <= {model}


async def test_sorting_a_question_leaves_nothing_in_the_history(through: Through) -> None:
    outcome = await through(routing.llm, "Why is the sky blue?")

    assert outcome.roles == ["user", "assistant"]


async def test_the_plan_stands_in_the_instructions_of_the_work(through: Through) -> None:
    heard: list[str] = []

    class Listening:
        name = "listening"

        async def stream(self, request: ai.ModelRequest) -> Any:
            heard.append(request.system)
            async for event in ai.scripted(planning.answer).stream(request):
                yield event

    outcome = await through(planning.llm.model(Listening()).system("Be exact."), "How large?")

    assert outcome.output.endswith("The room has 20 square metres.")
    assert shown(outcome, "ui", "steps") == [["1. measure both sides", "2. multiply"]]
    assert heard[0] == "Be exact."
    assert all("1. measure both sides" in each for each in heard[1:])
    assert len(heard) == 3


async def test_the_plan_itself_is_no_part_of_the_session(through: Through) -> None:
    outcome = await through(planning.llm, "How large is the room?")

    assert outcome.roles == ["user", "assistant", "user", "assistant"]
    assert len(results(outcome)) == 2


async def test_a_call_that_its_state_does_not_allow_is_refused(through: Through) -> None:
    outcome = await through(state_machine.llm, "To Rome, please")

    assert shown(outcome, "status", "status") == ["ask", "ask", "quote", "quote"]
    assert results(outcome) == [
        "Error: there is no tool named 'book' that you may call",
        "done; go on there",
        "to Rome: 90 EUR",
    ]
    assert outcome.output.endswith("Shall I book?")


async def test_the_next_run_goes_on_in_the_state_of_the_session(through: Through) -> None:
    before = (await through(state_machine.llm, "To Rome, please")).history

    outcome = await through(state_machine.llm, [*before, {"role": "user", "content": "Yes"}])

    assert shown(outcome, "status", "status") == ["quote", "book", "book"]
    assert results(outcome)[-1] == "booked for Rome: A7"
