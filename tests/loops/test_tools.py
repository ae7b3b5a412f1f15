import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Optional

import pytest
from pydantic import BaseModel

from loops.errors import InvalidArguments, SetupError
from loops.messages import ToolCall
from loops.tool_context import ToolContext
from loops.tools import Tool, arguments_of, as_tool, tool, unknown_tool_result


class Place(BaseModel):
    city: str
    days: int = 1


@tool
async def weather(place: Place, units: str = "metric", tags: list[str] | None = None) -> str:
    """Tell the weather."""
    return f"{place.city} {units} {tags}"


def call(arguments: str) -> ToolCall:
    return ToolCall("a", "turn:1.0", "weather", arguments)


def test_a_tool_is_named_and_described_by_its_function() -> None:
    assert (weather.name, weather.description) == ("weather", "Tell the weather.")


async def test_a_tool_is_still_the_function_that_it_was() -> None:
    assert await weather(Place(city="Rome")) == "Rome metric None"


def test_the_schema_comes_from_the_type_hints() -> None:
    schema = weather.spec.schema

    assert schema["type"] == "object"
    assert schema["required"] == ["place"]
    assert schema["properties"]["units"]["type"] == "string"
    assert schema["properties"]["tags"]["anyOf"][0] == {
        "type": "array",
        "items": {"type": "string"},
    }


def test_a_tool_without_parameters_has_the_schema_of_an_empty_object() -> None:
    @tool
    def now() -> str:
        return "now"

    assert now.schema == {"type": "object", "properties": {}}


def test_a_parameter_without_a_hint_takes_any_json_value() -> None:
    @tool
    def echo(said, times: Optional[int] = None) -> str:  # type: ignore[no-untyped-def]  # noqa: UP045 - untidy on purpose
        return str(said)

    assert set(echo.schema["properties"]["said"]) == {"title"}
    assert echo.schema["required"] == ["said"]
    for value in ("x", 3, None, [1.5], {"a": True}):
        assert echo.validated({"said": value}) == {"said": value, "times": None}


def test_parameters_may_be_named_like_anything() -> None:
    @tool
    def odd(schema: int, json: str, model_config: bool, _hidden: float = 0.5) -> str:
        return f"{schema} {json} {model_config} {_hidden}"

    keywords = odd.validated('{"schema": 1, "json": "x", "model_config": true}')

    assert odd(**keywords) == "1 x True 0.5"
    assert set(odd.schema["properties"]) == {"schema", "json", "model_config", "_hidden"}


def test_nested_models_arrive_as_instances() -> None:
    keywords = weather.validated('{"place": {"city": "Rome", "days": "3"}, "more": 1}')

    assert keywords == {"place": Place(city="Rome", days=3), "units": "metric", "tags": None}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"place": {"city": "Rome", "days": "many"}}', "place.days: Input should be a valid int"),
        ("{}", "place: Field required"),
        ('{"place": ', "are not valid: Expecting value"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_real_problem(
    arguments: str, problem: str
) -> None:
    with pytest.raises(InvalidArguments, match=problem):
        weather.validated(arguments)


def test_many_problems_are_told_in_part() -> None:
    @tool
    def take(numbers: list[int]) -> None: ...

    with pytest.raises(InvalidArguments, match="and 90 more") as caught:
        take.validated({"numbers": ["x"] * 100})

    assert len(str(caught.value)) < 1500


def test_a_checker_of_ones_own_may_raise_a_value_error() -> None:
    def check(given: Any) -> dict[str, Any]:
        raise ValueError("too late")

    own = Tool(weather.function, "own", "", {}, check)

    with pytest.raises(InvalidArguments, match="'own' do not fit: too late"):
        own.validated("{}")


def test_options_say_how_calls_are_carried_out() -> None:
    @tool(
        name="look-up",
        description="Look it up.",
        timeout=timedelta(seconds=3),
        queue="gpu",
        idempotent=True,
        read_only=True,
    )
    def look(where: str) -> str:
        return where

    assert (look.name, look.description) == ("look-up", "Look it up.")
    assert (look.timeout, look.queue) == (timedelta(seconds=3), "gpu")
    assert (look.idempotent, look.read_only) == (True, True)


@pytest.mark.parametrize("retries", [-1, 1.5, "2", True])
def test_retries_are_a_whole_number(retries: Any) -> None:
    def look() -> None: ...

    with pytest.raises(SetupError, match=r"'look' is given retries=.*; give a whole number"):
        tool(retries=retries)(look)


@pytest.mark.parametrize(
    ("option", "mend"),
    [
        ({"concurrency": 0}, "a whole number from 1"),
        ({"concurrency": True}, "a whole number from 1"),
        ({"redact": "password"}, "a list of arguments"),
        ({"redact": [1]}, "a list of arguments"),
        ({"aggregator": 3}, "a class of Aggregator"),
        ({"to_model_input": "text"}, "a function of the result"),
    ],
)
def test_an_option_of_another_kind_is_refused(option: Any, mend: str) -> None:
    def look() -> None: ...

    with pytest.raises(SetupError, match=f"'look' is given {next(iter(option))}=.*; give {mend}"):
        tool(**option)(look)


@pytest.mark.parametrize("timeout", [5, 2.5, "5s", True, timedelta(0), timedelta(seconds=-1)])
def test_a_timeout_that_is_no_length_of_time_is_refused(timeout: Any) -> None:
    def look() -> None: ...

    with pytest.raises(SetupError, match=r"'look' is given timeout=.*; give a timedelta"):
        tool(timeout=timeout)(look)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"queue": ""}, "queue=''; give the name of a queue"),
        ({"queue": 3}, "queue=3; give the name of a queue"),
        ({"read_only": "yes"}, "read_only='yes'; give True or False"),
        ({"readonly": True}, "'look', has no option 'readonly'; did you mean 'read_only'?"),
        ({"colour": "red"}, "'look', has no option 'colour'; it has aggregator, concurrency,"),
    ],
)
def test_an_option_that_is_none_or_of_another_kind_is_refused(options: Any, problem: str) -> None:
    def look() -> None: ...

    with pytest.raises(SetupError, match=re.escape(problem)):
        tool(**options)(look)


def test_what_is_no_function_is_no_tool() -> None:
    name: Any = "look"

    with pytest.raises(SetupError, match="a tool is a function, not 'look'; write @tool above"):
        tool(name)


@pytest.mark.parametrize(
    "hint",
    [ToolContext, ToolContext | None, Optional[ToolContext]],  # noqa: UP045 - both spellings
)
def test_the_context_is_injected_and_no_model_sees_it(hint: Any) -> None:
    def look(where: str, context: Any = None) -> str:
        return where

    look.__annotations__["context"] = hint

    assert tool(look).context_parameter == "context"
    assert set(tool(look).schema["properties"]) == {"where"}


@pytest.mark.parametrize("name", ["", "with space", "ü", "x" * 65, "a.b"])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    def look() -> None: ...

    look.__name__ = name

    with pytest.raises(SetupError, match="1 to 64 letters"):
        tool(look)


@pytest.mark.parametrize("function", [lambda *args: args, lambda **kwargs: kwargs, lambda a, /: a])
def test_a_parameter_that_has_no_name_is_refused(function: Any) -> None:
    with pytest.raises(SetupError, match="cannot be given by name"):
        tool(name="look")(function)


def test_a_type_hint_that_cannot_be_resolved_is_refused() -> None:
    def look(where: Any) -> None: ...

    look.__annotations__["where"] = "Nowhere"

    with pytest.raises(SetupError, match="'Nowhere' is not defined"):
        tool(look)


class NoSchema:
    """A class that pydantic knows nothing about."""


@pytest.mark.parametrize("hint", [NoSchema, Callable[[], int]])
def test_a_type_hint_without_a_schema_is_refused(hint: Any) -> None:
    def look(where: object) -> None: ...

    look.__annotations__["where"] = hint

    with pytest.raises(SetupError, match="type hint without a schema"):
        tool(look)


def test_objects_that_can_be_called_may_be_tools() -> None:
    class Adder:
        """Add."""

        async def __call__(self, a: int, b: int = 2) -> int:
            return a + b

    assert tool(name="adder")(Adder()).schema["required"] == ["a"]
    assert tool(name="two")(partial(lambda a, b: (a, b), 1)).schema["required"] == ["b"]


def test_a_plain_function_is_made_a_tool_and_a_tool_stays_one() -> None:
    def look() -> None: ...

    assert as_tool(look).name == "look"
    assert as_tool(weather) is weather


def test_overrides_replace_what_the_model_wrote() -> None:
    assert arguments_of(call('{"a": 1, "b": 2}'), {"b": {3}}) == '{"a":1,"b":[3]}'
    assert arguments_of(call('{"a": '), {"b": 3}) == '{"b":3}'
    assert arguments_of(call('{"a": '), None) == '{"a": '


def test_the_result_of_an_unknown_tool_is_bounded() -> None:
    result = unknown_tool_result(ToolCall("a", "turn:1.0", "x" * 10_000, "{}"))

    assert result.is_error
    assert len(result.name) == 64
    assert len(result.text) < 200
