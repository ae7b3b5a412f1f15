"""How many tokens a history takes, roughly: enough to say where to cut it, too little to bill it.

No tokenizer is asked, for each model has another. What a character weighs hangs on its script: a
token holds about four Latin letters, two Cyrillic or Arabic ones, and one Chinese character.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from loops.blocks import Raw

PICTURE = 1_600
"""What a picture counts, whatever its size: services scale it down to about that."""

UNSEEN_DOCUMENT = 5_000
"""What a document counts that is named by its address only."""

DOCUMENT_BYTES = 32
"""How many bytes of a document, as a PDF for instance, make a token."""

PER_MESSAGE = 4
"""What a message takes beside its content."""

PER_BLOCK = 2
"""What a block takes beside its content."""

_UNIT = 20
"""The weights below are twentieths of a token, so that sums stay whole numbers."""

_LETTER, _SIGN, _HALF, _WHOLE, _TWICE = 5, 8, 10, 20, 40
"""A letter or a space; a digit or a sign; a half, one, and two tokens a character."""


def _weight(byte: int) -> int:
    """Return what the character weighs whose UTF-8 form begins with the byte."""
    if byte < 0x80:
        return _LETTER if chr(byte).isalpha() or chr(byte).isspace() else _SIGN
    if byte < 0xC0:  # it does not begin a character
        return 0
    if byte < 0xE2:  # accents, Greek, Cyrillic, Hebrew, Arabic; Devanagari, Thai, Georgian
        return _HALF
    return _WHOLE if byte < 0xF0 else _TWICE  # Chinese, Kana, Hangul, signs; beyond: emoji


_WEIGHTS = bytes(_weight(byte) for byte in range(256))
"""Since all that is asked of a character is its first byte, text is weighed without a loop."""


def tokens_of(value: str | Raw | Sequence[Raw]) -> int:
    """Return about how many tokens a text, a message, a block, or a list of these takes.

    Pictures count by a flat figure and documents by their size, never by the characters that they
    are sent as. What no model reads does not count: signatures, and our own keys of a message.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return PER_MESSAGE + _content(value.get("content")) if "role" in value else _block(value)
    return sum(tokens_of(each) for each in value)


def blocks_of(message: Raw) -> list[Raw]:
    """Return the blocks of a message; none for one that is plain text."""
    return _blocks(message.get("content"))


def _text(text: str) -> int:
    weighed = text.encode("utf-8", "surrogatepass").translate(_WEIGHTS)
    weights = (_LETTER, _SIGN, _HALF, _WHOLE, _TWICE)
    return -(-sum(weight * weighed.count(weight) for weight in weights) // _UNIT)


def _blocks(content: object) -> list[Raw]:
    if not isinstance(content, list):
        return []
    entries = cast("list[object]", content)
    return [cast("Raw", each) for each in entries if isinstance(each, dict)]


def _content(content: object) -> int:
    if isinstance(content, str):
        return _text(content)
    return sum(_block(each) for each in _blocks(content))


def _block(block: Raw) -> int:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return PER_BLOCK + _text(text)
        case {"type": "image"}:
            return PICTURE
        case {"type": "tool_use", "input": arguments}:
            return PER_BLOCK + _text(str(block.get("name", ""))) + _json(arguments)
        case {"type": "tool_result"}:
            return PER_BLOCK + _content(block.get("content"))
        case {"source": {"type": str()} as source}:
            return PER_BLOCK + _source(cast("Raw", source))
        case _:
            return PER_BLOCK + _json(block)


def _source(source: Raw) -> int:
    match source:
        case {"media_type": str(kind)} if kind.startswith("image/"):
            return PICTURE
        case {"type": "base64", "data": str(data)}:
            return max(PICTURE, len(data) * 3 // 4 // DOCUMENT_BYTES)
        case {"type": "text", "data": str(text)}:
            return _text(text)
        case {"type": "content", "content": content}:
            return _content(content)
        case _:
            return UNSEEN_DOCUMENT


def _json(value: object) -> int:
    return _text(json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")))


__all__ = [
    "DOCUMENT_BYTES",
    "PER_BLOCK",
    "PER_MESSAGE",
    "PICTURE",
    "UNSEEN_DOCUMENT",
    "blocks_of",
    "tokens_of",
]
