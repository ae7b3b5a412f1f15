"""What a reader is shown of a reply while it comes: strings for text, dicts for all else; pure.

Both know the turn and the block that they come from, so the log tells them as precisely as what a
typed loop yields. A call is announced once, by the name that stands in the list of tools.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from loops.blocks import Raw
from loops.fold import Fold
from loops.jsonable import parse_object
from loops.messages import Usage
from loops.reply import (
    BuiltinToolEnd,
    BuiltinToolResult,
    Event,
    File,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolDelta,
    ToolStart,
)

from .events import step, thinking, tool_args
from .turn import Turn


class Text(str):
    """A piece of text that knows where it comes from."""

    turn: int | None
    block: int

    def __new__(cls, said: str, *, turn: int | None, block: int) -> "Text":
        """Make it of the text, the number of the turn, and that of the block."""
        made = super().__new__(cls, said)
        made.turn, made.block = turn, block
        return made


class Shown(dict[str, Any]):
    """A dict that knows where it comes from; it is written and compared like any other."""

    def __init__(self, told: Mapping[str, Any], *, turn: int | None, block: int = 0) -> None:
        super().__init__(told)
        self.turn = turn
        self.block = block


class CallBlock(dict[str, Any]):
    """A call in a `Turn`, as a plain dict that knows what was offered and shown with it."""

    def __init__(self, raw: Raw, offered: frozenset[str]) -> None:
        super().__init__(raw)
        self.offered = offered
        """The names of the tools that the model was offered."""
        self.is_announced = True
        """Whether the reader was shown the name already."""


class Reading:
    """One reply as it is read: what is shown of it, and the `Turn` in the end.

    Args:
        offered: The names of the tools that the model is offered.
        hides: Says of a tool's name whether nobody is shown its arguments.
    """

    def __init__(
        self, offered: frozenset[str], hides: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._offered = offered
        self._hides = hides
        self._fold = Fold()
        self._ids: dict[int, str] = {}
        self._hidden: set[int] = set()
        self._is_replayed = False

    def take(self, event: Event) -> Iterator[Any]:
        """Take the next event, and yield what the reader is shown of it."""
        self._fold.feed(event)
        turn = event.turn
        match event:
            case TextDelta():
                yield Text(event.text, turn=turn, block=event.block)
            case ReasoningDelta():
                yield Shown(thinking(event.text), turn=turn, block=event.block)
            case ToolStart():
                self._ids[event.block] = event.id or event.call
                self._hidden |= {event.block} if self._hides(event.name) else set()
                announced = step("", tool=event.name, id=self._ids[event.block])
                yield Shown(announced, turn=turn)
            case ToolDelta() if event.block not in self._hidden:
                yield Shown(tool_args(self._ids.get(event.block, ""), event.text), turn=turn)
            case StreamEnd():
                self._is_replayed = event.replayed
            case _:
                yield from (Shown(each, turn=turn) for each in _of_provider(event))

    @property
    def has_ended(self) -> bool:
        """Whether the reply is complete."""
        return self._fold.is_complete

    def turn(self) -> Turn:
        """Return the whole reply."""
        usage = self._fold.usage or Usage()
        content = [block.raw() for block in self._fold.message().content]
        return Turn(
            content=[self._block(each) for each in content],
            stop_reason=self._fold.stop_reason or "end_turn",
            input=usage.input_tokens or 0,
            output=usage.output_tokens or 0,
            cached=usage.cache_read_tokens or 0,
            cache_create=usage.cache_write_tokens or 0,
            replayed=self._is_replayed,
        )

    def _block(self, raw: Raw) -> Raw:
        return CallBlock(raw, self._offered) if raw["type"] == "tool_use" else raw


def _of_provider(event: Event) -> Iterator[dict[str, Any]]:
    """Yield what is shown of what the provider itself has done: searches, files."""
    match event:
        case BuiltinToolEnd():
            yield step(_query(event.arguments), tool=event.name, id=event.id)
        case BuiltinToolResult() if found := _sources(event.content):
            yield {"type": "sources", "sources": found, "id": event.id}
        case File() if event.media_type.startswith("image/"):
            yield {"type": "image", "src": _address(event)}
        case File():
            yield {"type": "file", "src": _address(event), "name": event.filename or "file"}
        case _:
            return


def _query(arguments: str) -> str:
    try:
        return str(parse_object(arguments).get("query", ""))
    except ValueError:
        return ""


def _sources(content: object) -> list[dict[str, str]]:
    """Return the pages that a provider's search has found; none for anything else."""
    told: object = content
    if isinstance(content, Mapping):
        told = cast("Mapping[str, Any]", content).get("content")
    pages = cast("list[object]", told) if isinstance(told, list) else list[object]()
    found = [cast("Mapping[str, Any]", each) for each in pages if isinstance(each, Mapping)]
    return [
        {"title": str(each.get("title", "")), "url": str(each["url"]), "snippet": ""}
        for each in found
        if each.get("url")
    ]


def _address(file: File) -> str:
    if file.data.startswith(("http://", "https://")):
        return file.data
    return f"data:{file.media_type};base64,{file.data}"
