"""Histories that are wrong in many ways: all of it is told, and all of it is mended."""

from loops.blocks import ToolResultBlock, ToolUseBlock
from loops.history import inspect, repair
from loops.messages import Message, as_message


def test_all_that_is_wrong_is_told_also_where_ids_are_broken() -> None:
    history = [
        as_message(" "),
        Message(
            role="assistant",
            content=[ToolUseBlock(id="same", name="t"), ToolUseBlock(id="same", name="t")],
        ),
        Message(
            role="tool",
            content=[
                ToolResultBlock(tool_use_id="same", content="ok"),
                ToolResultBlock(tool_use_id="nobody's", content="ok"),
            ],
        ),
        Message(role="assistant", content=[ToolUseBlock(id="late", name="t")]),
        as_message("half \ud83d"),
    ]

    told = {(issue.kind, issue.index) for issue in inspect(history)}

    assert told >= {
        *(("empty_text", 0), ("lone_surrogate", 4), ("orphan_result", 2)),
        *(("repeated_id", 1), ("unanswered_call", 1), ("unanswered_call", 3)),
    }
    assert inspect(repair(history)) == []
