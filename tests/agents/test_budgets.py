"""Budgets: a run is warned, then refused, and says why."""

from typing import Any

import pytest

import loops as ai
from loops.errors import BudgetExceeded, SetupError
from loops.events import RunWarning
from loops.testing import call, in_turn

pytestmark = pytest.mark.timeout(10)


@ai.tool
async def look() -> str:
    """Look."""
    return "seen"


def looking(turns: int, calls: int = 1) -> Any:
    return ai.scripted(in_turn(*[[call("look")] * calls for _ in range(turns)], "done"))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (ai.Budget(turns=5), "5 turns"),
        (ai.Budget(tokens=1), "1 tokens"),
        (ai.Budget(tool_calls=5), "5 tool calls"),
        (ai.Budget(seconds=1e-9), "1e-09 seconds"),
    ],
)
async def test_past_its_budget_a_run_is_refused_and_told_why(budget: ai.Budget, words: str) -> None:
    agent = ai.Agent(model=looking(8), tools=[look], budget=budget)
    async with agent.run(messages="go") as stream:
        with pytest.raises(BudgetExceeded, match=f"its budget of {words}"):
            async for _ in stream:
                pass


async def test_a_run_is_warned_once_at_four_fifths_of_a_limit() -> None:
    agent = ai.Agent(model=looking(4), tools=[look], budget=ai.Budget(turns=5, tool_calls=50))
    async with agent.run(messages="go") as stream:
        events = [event async for event in stream]

    assert [event for event in events if isinstance(event, RunWarning)] == [RunWarning("turns", 5)]
    assert stream.output == "done"


def test_of_two_budgets_the_stricter_limits_hold() -> None:
    one, other = ai.Budget(turns=5, usd=1.0), ai.Budget(turns=3, seconds=9)

    assert one.within(other) == ai.Budget(turns=3, usd=1.0, seconds=9)
    assert one.within(None) == one


@pytest.mark.parametrize("limit", [0, -1, True, "much"])
def test_a_limit_is_a_number_above_zero(limit: Any) -> None:
    with pytest.raises(SetupError, match="a budget's turns is a number above zero"):
        ai.Budget(turns=limit)
