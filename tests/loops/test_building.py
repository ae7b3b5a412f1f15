"""Messages and results in few words."""

import pytest

import loops as ai
from loops.messages import ToolCall


def test_a_message_is_made_of_text_and_blocks() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}

    assert ai.user_message("look", picture).raw() == {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, picture],
    }
    assert ai.system_message("be kind").raw() == {"role": "system", "content": "be kind"}
    assert ai.assistant_message("well").text == "well"
    assert ai.message("go", role="user") == ai.user_message("go")


def test_a_result_names_its_call() -> None:
    call = ToolCall("a", "turn:1.0", "look", "{}")

    result = ai.tool_result("seen", call=call, is_error=True)

    assert (result.call, result.id, result.name, result.is_error) == ("turn:1.0", "a", "look", True)


def test_outside_of_a_tool_a_result_needs_its_call() -> None:
    with pytest.raises(LookupError, match="no tool is being called here"):
        ai.tool_result("seen")
