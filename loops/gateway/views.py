"""What a caller gets of the rounds of his call, by protocol and mode; pure.

A view is fed what the run's log has: the rows of a round as they come, then its end.
"""

from collections.abc import Sequence

from .carried import Carried, hidden_by
from .chat_view import MergedChat
from .held_view import Held, View
from .messages_view import MergedMessages, SeparateMessages
from .rounds import Mode, RoundEnd, Surface
from .rows import Row


class Through:
    """Every row as it comes."""

    def __init__(self) -> None:
        self.has_shown = False

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows."""
        self.has_shown = self.has_shown or bool(rows)
        return list(rows)

    def end(self, end: RoundEnd) -> list[Row]:
        """Return nothing: the end, too, has come as rows."""
        del end
        return []

    def reset(self) -> bool:
        """Say whether nothing has come yet."""
        return not self.has_shown


def view_of(surface: Surface, mode: Mode) -> View:
    """Return a new view of a streamed call.

    Args:
        surface: The protocol of the rows, and of the caller.
        mode: What the caller sees of calls that are taken up.
    """
    is_message = surface is Surface.MESSAGES
    match mode:
        case Mode.COMPATIBLE:
            return SeparateMessages() if is_message else Through()
        case Mode.MERGED:
            return MergedMessages() if is_message else MergedChat()
        case Mode.HOLD:
            return Held(_held_message if is_message else _held_chat)


def _held_message(carried: Carried, end: RoundEnd) -> View:
    return MergedMessages(carried, hidden_by(end))


def _held_chat(carried: Carried, _: RoundEnd) -> View:
    return MergedChat(carried)
