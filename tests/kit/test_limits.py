from typing import Any

import pytest

from loops.errors import BudgetExceeded, SetupError, TurnLimitExceeded
from loops.kit import LLM, Limits
from loops.kit.limits import Repetition
from loops.kit.turn import Turn
from tests.kit.loop_talks import (
    CALL,
    OTHER,
    PRICE,
    asking,
    callouts,
    calls,
    kept,
    results,
    told,
    told_until_it_fails,
)
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER, weather


def endless() -> ScriptedProvider:
    """Return a model that calls for ever, each time for another city."""
    return ScriptedProvider(
        [{**CALL, "id": f"c{number}", "input": {"city": str(number)}}] for number in range(1_000)
    )


async def test_a_run_takes_as_many_replies_as_it_may() -> None:
    provider = endless()
    context = asking()

    _, error = await told_until_it_fails(context, provider, limits=Limits(steps=3))

    assert isinstance(error, TurnLimitExceeded)
    assert len(provider.asked) == 3
    messages = await kept(context)
    assert len(calls(messages)) == len(results(messages)) == 3


async def test_a_run_takes_as_many_replies_as_its_agent_says() -> None:
    provider = endless()

    _, error = await told_until_it_fails(asking(max_turns=4), provider)

    assert isinstance(error, TurnLimitExceeded)
    assert len(provider.asked) == 4


async def test_a_run_costs_as_much_as_it_may() -> None:
    provider = endless()
    one_reply = (10 * PRICE["input"] + 5 * PRICE["output"]) / 1_000_000

    _, error = await told_until_it_fails(
        asking(), provider, price=PRICE, limits=Limits(cost=one_reply * 2.5)
    )

    assert isinstance(error, BudgetExceeded)
    assert len(provider.asked) == 3


async def test_the_same_calls_in_a_row_are_refused_and_then_end_the_run() -> None:
    context = asking()
    done: list[dict[str, Any]] = []
    provider = ScriptedProvider([{**CALL, "id": f"c{number}"}] for number in range(1_000))

    events = await told(context, provider, handlers={"weather": done.append})

    assert len(done) == 4
    assert len(provider.asked) == 6
    answers = [each["content"] for each in results(await kept(context))]
    assert answers[4].startswith("Error: you have made these very calls 5 times in a row")
    assert callouts(events) == ["Stopped: the same calls were made again and again."]


async def test_calls_that_take_turns_are_not_the_same() -> None:
    provider = ScriptedProvider([*[[CALL], [OTHER]] * 5, "Fine."])

    events = await told(asking(), provider)

    assert callouts(events) == []
    assert len(provider.asked) == 11


async def test_repetition_may_be_allowed() -> None:
    replies = [[{**CALL, "id": f"c{number}"}] for number in range(8)]
    provider = ScriptedProvider([*replies, "Fine."])
    llm = LLM().model(provider).tools([WEATHER]).on("weather", weather).limits(repeats=None)

    events = [each async for each in llm.run(context=asking())]

    assert callouts(events) == []
    assert len(provider.asked) == 9


def test_calls_are_the_same_by_what_they_ask_for() -> None:
    repetition = Repetition(3)
    one = {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1, "y": [2]}}
    same = {"type": "tool_use", "id": "b", "name": "t", "input": {"y": [2], "x": 1}}
    other = {**one, "input": {"x": 1, "y": [3]}}

    counts: list[int] = []
    for block in (one, same, other, one, same, one):
        repetition.note(Turn([block], "tool_use"))
        counts.append(repetition.count)

    assert counts == [1, 2, 1, 1, 2, 3]
    assert repetition.is_refused
    assert not repetition.is_over


@pytest.mark.parametrize("limits", [{"steps": 0}, {"cost": -1.0}, {"repeats": True}])
def test_a_limit_that_is_none_is_refused(limits: Any) -> None:
    with pytest.raises(SetupError, match="is a number above zero"):
        Limits(**limits)
