"""Messages of the kit, which are plain dicts, and ours: the same thing in two forms; pure.

What stands in a dict beside `role` and `content` is the kit's own: it is kept with the message, and
no model is told.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from loops.blocks import Raw
from loops.messages import Message

logger = logging.getLogger("loopmill.kit")

_SAID = frozenset({"role", "content"})

PICTURE = "[A picture was here; this model reads text only.]"
"""What a model that sees no pictures is told in the place of one."""


def to_message(raw: Mapping[str, Any]) -> Message:
    """Return the message of a plain dict, all that stands in it kept."""
    meta = {name: value for name, value in raw.items() if name not in _SAID}
    return Message.from_raw({"role": raw["role"], "content": raw["content"], "meta": meta})


def to_raw(message: Message) -> Raw:
    """Return the plain dict of a message, with what is kept beside it."""
    return {**message.raw(), **message.meta}


def read(stored: Mapping[str, Any]) -> Message:
    """Return a message that was stored; what is none is empty, so that it keeps its place."""
    try:
        return Message.from_raw(stored)
    except ValueError as error:
        logger.warning("! a message of a session cannot be read and is passed over: %s", error)
        return Message(role="system", content=[])


def said(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return the messages as a model is told them, without what is kept beside them."""
    return [
        Message.from_raw({"role": each["role"], "content": each["content"]}) for each in messages
    ]


def without_pictures(messages: Sequence[Raw]) -> list[Raw]:
    """Return the messages for a model that sees none: a line stands in the place of each."""
    return [{**each, "content": _blind(each["content"])} for each in messages]


def _blind(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_blind_block(block) for block in cast("list[Raw]", content)]


def _blind_block(block: Raw) -> Raw:
    if block.get("type") in {"image", "document"}:
        return {"type": "text", "text": PICTURE}
    if block.get("type") == "tool_result":
        return {**block, "content": _blind(block.get("content"))}
    return block
