"""A history that ends in the middle of a turn: its calls are carried out, and no model is asked.

So ends a run whose hooks were deferred, and one that broke off between a reply and its results.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from .events import ModelEvent, ToolEnd
from .fold import written
from .messages import Message, Messages, ToolResult


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The reply whose calls are to be carried out, and what is known of them."""

    message: Message
    results: dict[str, ToolResult]
    """By the key of the call: these calls have their results already."""

    async def events(self) -> AsyncIterator[ModelEvent]:
        """Yield the calls of the reply again; what it said is in the history."""
        for number, block in enumerate(self.message.tool_calls):
            arguments = written(block)
            key = block.call or block.id
            yield ToolEnd(number, block.id, block.name, arguments, key, replayed=True)


def take_interrupted(messages: Messages) -> Interrupted | None:
    """Return the turn that the history ends in the middle of, if it does.

    Results of it are taken out of the history: they come again, with those that were missing.
    """
    match messages:
        case [*_, Message(role="assistant") as reply] if reply.tool_calls:
            return Interrupted(reply, {})
        case [*_, Message(role="assistant") as reply, Message(role="tool") as answers] if any(
            block.deferred for block in answers.tool_results
        ):
            messages.pop()
            return Interrupted(reply, _results(reply, answers))
        case _:
            return None


def _results(reply: Message, answers: Message) -> dict[str, ToolResult]:
    known = {block.tool_use_id: block for block in answers.tool_results if not block.deferred}
    results: dict[str, ToolResult] = {}
    for call in reply.tool_calls:
        block = known.get(call.id)
        if block is not None:
            key = call.call or call.id
            result = ToolResult(key, call.id, call.name, block.content, is_error=block.is_error)
            if block.result is not None:
                result = replace(result, content=block.result, told=block.content)
            results[key] = result
    return results
