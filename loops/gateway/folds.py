"""The folds of both protocols by their names; pure."""

from collections.abc import Callable, Sequence

from loops.blocks import Raw

from .chat_fold import fold_chat, rows_of_chat
from .message_fold import fold_message, rows_of_message
from .rounds import Surface
from .rows import Row

_FOLDS: dict[Surface, Callable[[Sequence[Row]], Raw]] = {
    Surface.MESSAGES: fold_message,
    Surface.CHAT: fold_chat,
}

_ROWS: dict[Surface, Callable[[Raw], list[Row]]] = {
    Surface.MESSAGES: rows_of_message,
    Surface.CHAT: rows_of_chat,
}


def folded(surface: Surface, rows: Sequence[Row]) -> Raw:
    """Return the plain body of the reply that the rows are."""
    return _FOLDS[surface](rows)


def unfolded(surface: Surface, body: Raw) -> list[Row]:
    """Return the rows of a stream that tells the body."""
    return _ROWS[surface](body)
