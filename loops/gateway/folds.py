"""Streams folded into plain bodies, and back, whichever the protocol; pure."""

from collections.abc import Sequence

from loops.blocks import Raw

from .chat_fold import fold_chat, rows_of_chat
from .message_fold import fold_message, rows_of_message
from .rounds import Surface
from .rows import Row


def folded(surface: Surface, rows: Sequence[Row]) -> Raw:
    """Return the plain body of the reply that the rows are."""
    return fold_message(rows) if surface is Surface.MESSAGES else fold_chat(rows)


def unfolded(surface: Surface, body: Raw, *, tells_usage: bool = True) -> list[Row]:
    """Return the rows of a stream that tells the body; a message tells its usage always."""
    if surface is Surface.MESSAGES:
        return rows_of_message(body)
    return rows_of_chat(body, tells_usage=tells_usage)
