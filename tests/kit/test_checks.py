"""What an agent of the kit is told is looked at when it is said."""

from typing import Any

import pytest

import loops as ai
from loops.errors import SetupError
from loops.kit import LLM, Limits
from loops.providers.scripted import scripted

WRONG: list[tuple[str, Any, str]] = [
    ("thinking", "hard", "'hard'"),
    ("max_tokens", -1, "-1"),
    ("max_tokens", "many", "'many'"),
    ("context", 0, "context"),
    ("system", 5, "give text"),
    ("bash_timeout", "1m", "number of seconds"),
    ("web_search", "google", "'brave' or 'native'"),
    ("tools", len, "give a list of tools"),
    ("tools", {"name": "x"}, "give a list of tools"),
    ("tools", [{"description": "x"}], "'name'"),
    ("allowed_tools", "bash", "did you mean 'Bash'"),
    ("headers", {"a": 1}, "dict of text"),
]


@pytest.mark.parametrize(("word", "value", "said"), WRONG)
def test_a_value_that_is_none_is_refused_at_once(word: str, value: Any, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        getattr(LLM(), word)(value)


def test_a_secret_is_not_shown_when_it_is_refused() -> None:
    with pytest.raises(SetupError) as caught:
        LLM().api_key(12345)  # type: ignore[arg-type]  # wrong on purpose

    assert "12345" not in str(caught.value)


def test_a_price_below_zero_is_none() -> None:
    with pytest.raises(SetupError, match="price of input"):
        LLM().price(input=-1)


def test_an_option_of_a_handler_that_is_none_names_the_one_that_was_meant() -> None:
    with pytest.raises(SetupError, match="require_approval"):
        LLM().on("x", lambda inp: 1, requires_approval=True)  # type: ignore[call-arg]  # the same


def test_a_handler_of_three_parameters_is_refused() -> None:
    with pytest.raises(SetupError, match="3 parameters"):
        LLM().on("x", lambda a, b, c: 1)


def test_a_function_that_answers_no_tool_is_refused_by_the_app() -> None:
    llm = LLM().model(scripted("hi")).tools([{"name": "price"}]).on("prise", lambda inp: 1)

    with pytest.raises(SetupError, match="did you mean 'price'"):
        ai.App({"shop": llm})


def test_limits_are_said_one_by_one() -> None:
    llm = LLM().limits(steps=3).limits(cost=1.0)

    assert llm._given["limits"] == Limits(steps=3, cost=1.0)


async def test_a_limit_of_cost_needs_a_price() -> None:
    llm = LLM().model(scripted("hi")).limits(cost=1.0)

    with pytest.raises(SetupError, match="needs a price"):
        await ai.App({"shop": llm}).run("shop", "hi")
