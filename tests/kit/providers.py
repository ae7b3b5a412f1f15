"""A model of the kit that answers by a script, and remembers what it was asked."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from loops.blocks import Raw
from loops.kit.turn import Turn

Said = str | list[Raw] | Turn | Exception
"""Text; the blocks of a reply; a whole turn; or what is raised instead."""

Answer = Said | Callable[[dict[str, Any]], Said | Awaitable[Said]]
"""What is said, or a function of the request's keywords that gives it, perhaps after a while."""


class ScriptedProvider:
    """Gives one answer a request, in order; a request past the last one fails the test."""

    def __init__(self, answers: Iterable[Answer], model: str = "scripted") -> None:
        self.model = model
        self.asked: list[dict[str, Any]] = []
        """The keywords of each request; later changes to its list of messages do not show."""
        self._answers = iter(answers)

    async def stream(self, **keywords: Any) -> AsyncIterator[Any]:
        """Yield the text as strings, in two pieces where it has two, and then the turn."""
        turn = await self._turn(keywords)
        middle = len(turn.text) // 2
        for piece in (turn.text[:middle], turn.text[middle:]):
            if piece:
                yield piece
        yield turn

    async def complete(self, **keywords: Any) -> str:
        """Return the text of the next answer."""
        return (await self._turn(keywords)).text

    async def _turn(self, keywords: dict[str, Any]) -> Turn:
        self.asked.append({**keywords, "messages": list(keywords["messages"])})
        said = next(self._answers, AssertionError(f"request {len(self.asked)} has no answer"))
        if callable(said):
            given = said(keywords)
            said = await given if inspect.isawaitable(given) else given
        return turn_of(said)


def turn_of(said: Said) -> Turn:
    """Return the turn of what is said, or raise it; with calls its reason is `tool_use`."""
    if isinstance(said, Exception):
        raise said
    if isinstance(said, Turn):
        return said
    content: list[Raw] = [{"type": "text", "text": said}] if isinstance(said, str) else said
    calls = any(block["type"] == "tool_use" for block in content)
    return Turn(content if said else [], "tool_use" if calls else "end_turn", input=10, output=5)
