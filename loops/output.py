"""What a run gives: the text that it published in its last turn."""

from typing import Any

import orjson
from pydantic import TypeAdapter

from .events import Event, Retry, StreamStart, TextDelta
from .jsonable import jsonable


class PublishedText:
    """The text of the turn that was published last; fed with what a loop yields."""

    def __init__(self) -> None:
        self._turn: int | None = None
        self._pieces: list[str] = []

    def feed(self, event: Event) -> None:
        """Take the next event; the text of an earlier turn is forgotten when a later one begins."""
        if isinstance(event, TextDelta):
            if event.turn != self._turn:
                self._begin(event.turn)
            self._pieces.append(event.text)
        elif isinstance(event, (StreamStart, Retry)):
            self._begin(event.turn)

    def _begin(self, turn: int | None) -> None:
        self._turn = turn
        self._pieces.clear()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)


def told_output(output: object) -> str:
    """Return what a loop set as its output as text: JSON, where it is none."""
    return output if isinstance(output, str) else orjson.dumps(jsonable(output)).decode()


def read_output(text: str, output_type: Any) -> Any:
    """Return the text, or what its JSON says where an output type is given.

    Raises:
        ValidationError: When the JSON does not fit the type.
    """
    if output_type is None or output_type is str:
        return text
    return TypeAdapter[Any](output_type).validate_json(text)
