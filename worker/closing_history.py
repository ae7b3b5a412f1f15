"""What a run leaves in its session when it ends in the middle of a turn.

The next run's model should know what was said and done: the reply as far as it came, and for each
of its calls the result, or that it may or may not have happened.
"""

from __future__ import annotations

from collections.abc import Callable

from loops.fold import fold
from loops.messages import Message, Messages, ToolResult, tool_message

from .open_turn import DurableTurn

CUT_OFF = "cancelled: the run ended before this call did; it may or may not have had its effect"
"""What a call without a result is answered."""


def closing_messages(
    messages: Messages, turn: DurableTurn | None, result_of: Callable[[str], ToolResult | None]
) -> list[Message]:
    """Return the messages with which the history is whole.

    Args:
        messages: The history as the loop left it.
        turn: The turn that was asked for last.
        result_of: Gives the result of a call by its key, where there is one.
    """
    closing: list[Message] = []
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant":
        if turn is None or len(messages) != turn.history_length:
            return []
        last = fold(turn.given)
        if not last.content:
            return []
        closing.append(last)
    results: list[ToolResult] = []
    for call in last.tool_calls:
        known = result_of(call.call)
        results.append(known or ToolResult(call.call, call.id, call.name, CUT_OFF, is_error=True))
    answered = tool_message(results)
    return closing if answered is None else [*closing, answered]
