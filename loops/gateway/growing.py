"""Values that come piece by piece, put together; pure."""

from typing import Any

from loops.blocks import Raw
from loops.jsonable import clean_text
from loops.providers.told import word


def grown(before: Any, more: Any) -> Any:
    """Return the two together: text, lists and objects grow; null takes nothing away."""
    if type(before) is type(more) and type(more) in {str, list}:
        return before + more
    if type(before) is type(more) is dict:
        return _grown(before, more)
    return before if more is None else more


def _grown(before: Raw, more: Raw) -> Raw:
    whole = dict(before)
    for name, value in more.items():
        whole[name] = grown(whole.get(name), value)
    return whole


def overlaid(before: Raw, more: Raw) -> Raw:
    """Return the fields of both; the later ones count, but null takes nothing away."""
    told = {name: each for name, each in more.items() if each is not None or name not in before}
    return {**before, **told}


class Pieces:
    """The text of several fields, each of which grows by pieces, and is joined once."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}

    def add(self, name: str, text: str) -> None:
        """Let the text of a field grow."""
        self._pieces.setdefault(name, []).append(text)

    def joined(self, started: Raw) -> Raw:
        """Return the fields as whole text, each with the text that it was started with."""
        return {
            name: clean_text("".join([word(started.get(name)), *pieces]))
            for name, pieces in self._pieces.items()
        }
