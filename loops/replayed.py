"""A complete message as the events that would have made it."""

from collections.abc import Iterator

from .blocks import Block, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from .fold import written
from .messages import Message
from .reply import (
    BuiltinToolResult,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)


def events_of(message: Message) -> Iterator[ModelEvent]:
    """Yield the reply that the message is: each block begins, has one delta, and ends."""
    yield StreamStart()
    for number, block in enumerate(message.content):
        yield from _events_of_block(number, block)
    reason = "tool_use" if message.tool_calls else "end_turn"
    yield StreamEnd(stop_reason=reason, usage=message.usage)


def _events_of_block(number: int, block: Block) -> Iterator[ModelEvent]:
    more = dict(block.model_extra or {})
    match block:
        case TextBlock():
            yield TextStart(number)
            yield TextDelta(number, block.text)
            yield TextEnd(number, citations=more.pop("citations", None), extra=more or None)
        case ThinkingBlock():
            yield ReasoningStart(number)
            yield ReasoningDelta(number, block.thinking)
            yield ReasoningEnd(number, signature=block.signature, extra=more or None)
        case RedactedThinkingBlock():
            yield ReasoningStart(number, redacted=block.data)
            yield ReasoningEnd(number, extra=more or None)
        case ToolUseBlock():
            arguments, key = written(block), block.call
            yield ToolStart(number, block.id, block.name, key)
            yield ToolDelta(number, arguments)
            yield ToolEnd(number, block.id, block.name, arguments, key, extra=more or None)
        case _:
            # Whatever else a provider has said goes back to it word for word.
            yield BuiltinToolResult(number, "", block.type, block.raw())
