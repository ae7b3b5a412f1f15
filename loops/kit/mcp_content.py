"""What an MCP server's tools give, as a model of the kit can read it, and what they are called."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from loops.blocks import Raw
from loops.jsonable import MAX_TEXT

LONGEST_NAME = 64
"""How many characters a model's provider takes as the name of a tool."""

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds of images that models look at; any other makes their providers refuse the request."""

ROOM = MAX_TEXT - 16 * 1024
"""How many characters of images a result may have; the rest is for its text.

What is longer than `MAX_TEXT` is cut, and the half of an image is of no use to anybody.
"""

_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def clean_names(names: Iterable[str], *, prefix: str) -> dict[str, str]:
    """Return for each name one that fits a provider once the prefix stands before it.

    A name that fits stays as it is. Any other gets a mark made of the whole of it, so that two
    names never become one, and the same names become the same at any time.
    """
    limit = LONGEST_NAME - len(prefix)
    given = list(dict.fromkeys(names))
    cleaned = {name: name for name in given if 0 < len(name) <= limit and not _UNFIT.search(name)}
    for name in given:
        if name not in cleaned:
            marks = (_marked(name, length, limit) for length in range(8, limit))
            cleaned[name] = next(each for each in marks if each not in cleaned.values())
    return {name: cleaned[name] for name in given}


def _marked(name: str, length: int, limit: int) -> str:
    mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:length]
    return f"{_UNFIT.sub('_', name)[: limit - length - 1]}-{mark}"


def value_of(result: CallToolResult) -> Any:
    """Return the text of a result, its blocks in Anthropic's shape, or its JSON value.

    Text alone is one string. Where there is more than text, each piece is a block: images as they
    are, whatever a model cannot look at as a note of what it was. The structured value counts
    where there are no pieces; with pieces it says the same once more.
    """
    if not result.content:
        return "" if result.structured_content is None else result.structured_content
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if len(texts) == len(result.content):
        return "\n".join(texts)
    shown = _Shown()
    return [piece for block in result.content for piece in shown.pieces(block)]


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, in which images are only named."""
    shown = _Shown(room=0)
    pieces = [piece for block in result.content for piece in shown.pieces(block)]
    return "\n".join(piece["text"] for piece in pieces)


class _Shown:
    """The blocks of one result, as long as there is room for images."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room

    def pieces(self, block: ContentBlock) -> list[Raw]:
        match block:
            case TextContent():
                return [_text(block.text)]
            case ImageContent():
                return [self._image(block.mime_type, block.data)]
            case AudioContent():
                return [_text(_note(block.mime_type, block.data, "models of the kit do not hear"))]
            case EmbeddedResource():
                return self._resource(block.resource)
            case ResourceLink():
                about = f": {block.description}" if block.description else ""
                return [_text(f"[{block.title or block.name}, {block.uri}{about}]")]

    def _resource(self, resource: TextResourceContents | BlobResourceContents) -> list[Raw]:
        if isinstance(resource, TextResourceContents):
            return [_text(f"{resource.uri}\n{resource.text}")]
        kind = resource.mime_type or "application/octet-stream"
        if kind in SHOWN_IMAGES:
            return [_text(resource.uri), self._image(kind, resource.blob)]
        return [_text(f"{resource.uri}\n{_note(kind, resource.blob, 'it is no text')}")]

    def _image(self, kind: str, data: str) -> Raw:
        if kind not in SHOWN_IMAGES:
            return _text(_note(kind, data, "models do not look at such images"))
        if not _is_base64(data):
            return _text(_note(kind, data, "it is broken"))
        if len(data) > self._room:
            return _text(_note(kind, data, "it is too large to be shown"))
        self._room -= len(data)
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _text(text: str) -> Raw:
    return {"type": "text", "text": text}


def _note(kind: str, data: str, reason: str) -> str:
    return f"[{kind}, about {len(data) * 3 // 4} bytes: {reason}]"


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False
