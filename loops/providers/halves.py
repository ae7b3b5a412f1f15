"""Halves of characters that come in two deltas, put together; pure.

A server that writes JSON in UTF-16 may cut a character between two pieces of text. Each piece alone
is no text that can be stored or shown.
"""

from collections.abc import Iterable, Iterator

from loops.jsonable import clean_text
from loops.reply import BuiltinToolDelta, ModelEvent, ReasoningDelta, TextDelta, ToolDelta

_Delta = TextDelta | ReasoningDelta | ToolDelta | BuiltinToolDelta


class Halves:
    """Holds a first half back until the second comes, or the block ends."""

    def __init__(self) -> None:
        self._held: dict[int, _Delta] = {}

    def join(self, events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
        """Yield the events with whole characters only."""
        for event in events:
            held = self._held.pop(getattr(event, "block", -1), None)
            if isinstance(event, _Delta):
                text = f"{held.text}{event.text}" if held else event.text
                if "\ud800" <= text[-1:] <= "\udbff":
                    self._held[event.block] = type(event)(event.block, text[-1])
                    text = text[:-1]
                if text:
                    yield type(event)(event.block, clean_text(text))
            else:
                if held is not None:
                    yield type(held)(held.block, clean_text(held.text))
                yield event
