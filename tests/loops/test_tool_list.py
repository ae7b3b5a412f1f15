from typing import Any

import pytest

from loops.errors import SetupError
from loops.tool_list import as_tools, tools_by_name
from loops.tools import tool


@tool
async def double(number: int) -> int:
    return 2 * number


@tool(name="double")
def double_again(number: int) -> int:
    return 4 * number


def look() -> None: ...


class Eyes:
    """What has a method that may be a tool."""

    def look(self) -> None: ...


def test_of_two_tools_of_one_name_the_later_one_counts() -> None:
    assert tools_by_name([double, double_again]) == {"double": double_again}


def test_functions_are_made_tools_in_their_order() -> None:
    assert [each.name for each in as_tools([look, double])] == ["look", "double"]


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    with pytest.raises(SetupError) as caught:
        as_tools([double, double_again])

    told = str(caught.value)
    assert told.startswith("two tools are named 'double': ")
    assert f"{__name__}.double and {__name__}.double_again; give one of them" in told


def test_one_tool_may_be_given_twice() -> None:
    eyes = Eyes()

    assert [each.name for each in as_tools([double, double])] == ["double", "double"]
    assert len(as_tools([eyes.look, eyes.look])) == 2


@pytest.mark.parametrize("given", [double, 3, look])
def test_what_is_no_list_is_refused(given: Any) -> None:
    with pytest.raises(SetupError, match="tools is a list of tools, not"):
        as_tools(given)


def test_what_is_no_function_is_refused() -> None:
    wrong: Any = {"double": double}

    with pytest.raises(SetupError, match="a tool is a function, not 'double'"):
        as_tools(wrong)
