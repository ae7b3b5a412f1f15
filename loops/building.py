"""Messages and results in few words."""

from collections.abc import Mapping
from typing import Any

from .blocks import Raw
from .messages import Message, Role, ToolCall, ToolResult, as_message
from .tool_context import current_tool_call

Part = str | Mapping[str, Any]
"""Text, or a block as a plain dict in Anthropic's shape."""


def message(*parts: Part, role: Role) -> Message:
    """Return a message of these parts.

    Raises:
        ValidationError: When a part is no block.
    """
    return as_message({"role": role, "content": [_block(part) for part in parts]})


def user_message(*parts: Part) -> Message:
    """Return what a person says."""
    return message(*parts, role="user")


def system_message(*parts: Part) -> Message:
    """Return what the program says."""
    return message(*parts, role="system")


def assistant_message(*parts: Part) -> Message:
    """Return what the model has said."""
    return message(*parts, role="assistant")


def tool_result(
    content: Any, *, call: ToolCall | None = None, is_error: bool = False
) -> ToolResult:
    """Return the result of a call, of the one that is performed here if none is given.

    Raises:
        LookupError: When none is given, outside of a tool.
    """
    answered = current_tool_call() if call is None else call
    return ToolResult(answered.key, answered.id, answered.name, content, is_error=is_error)


def _block(part: Part) -> Raw:
    return {"type": "text", "text": part} if isinstance(part, str) else dict(part)
