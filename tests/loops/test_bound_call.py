import pytest

from loops.bound_call import BoundToolCall
from loops.errors import InvalidArguments
from loops.events import ToolCallResult
from loops.local import LocalRuntime
from loops.messages import ToolCall
from loops.tools import Tool, tool


@tool
async def double(number: int) -> int:
    return 2 * number


def bound(arguments: str, *, by: Tool | None = double, call_id: str = "a") -> BoundToolCall:
    call = ToolCall(call_id, "turn:1.0", "double", arguments, number=1)
    return BoundToolCall(call, by, LocalRuntime)


async def test_a_bound_call_gives_its_result_as_an_event() -> None:
    result = await bound('{"number": 5}')()

    assert result == ToolCallResult("turn:1.0", "a", "double", 10, turn=1)


async def test_a_bound_call_shows_what_it_is() -> None:
    call = bound('{"number": "5"}')

    assert (call.id, call.name, call.kwargs) == ("a", "double", {"number": 5})
    assert bound("{}", call_id="").id == "turn:1.0"


async def test_arguments_are_looked_at_when_the_call_is_made_and_not_before() -> None:
    call = bound('{"number": ')

    result = await call()

    assert result.is_error
    with pytest.raises(InvalidArguments):
        _ = call.kwargs


async def test_overrides_mend_what_the_model_wrote() -> None:
    assert (await bound('{"number": ')(number=7)).content == 14


async def test_a_wrong_override_is_the_program_s_own_fault() -> None:
    with pytest.raises(InvalidArguments, match="number: Input should be a valid integer"):
        await bound('{"number": 5}')(number="many")


async def test_a_call_of_an_unknown_tool_is_an_error_result() -> None:
    call = bound('{"number": 5}', by=None)

    assert call.kwargs == {"number": 5}
    assert (await call(number=6)).is_error
