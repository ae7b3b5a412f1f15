"""The parts of a user's message to a Chat Completions service; pure.

What the protocol has no part for is told in words, so that nothing is lost in silence.
"""

from collections.abc import Iterable, Iterator
from mimetypes import guess_extension
from typing import cast

from loops.blocks import Raw

from .told import fields, word


def parts(blocks: Iterable[object], *, takes_addresses: bool = False) -> Iterator[Raw]:
    """Yield what the plain blocks say; `takes_addresses` where the service fetches documents."""
    for each in blocks:
        block = fields(each)
        match block.get("type"):
            case "text":
                yield from _text(word(block.get("text")))
            case "image":
                yield _picture(fields(block.get("source")))
            case "document":
                yield from _document(block, takes_addresses=takes_addresses)
            case "search_result":
                yield from _found(block)
            case _:
                continue


def blocks_of(content: object) -> list[object]:
    """Return the content of a result, or of a document, as plain blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return cast("list[object]", content) if isinstance(content, list) else []


def _text(text: str) -> Iterator[Raw]:
    if text.strip():
        yield {"type": "text", "text": text}


def _picture(source: Raw) -> Raw:
    if source.get("type") == "file":
        return _file(file_id=word(source.get("file_id")))
    is_address = source.get("type") == "url"
    address = word(source.get("url")) if is_address else _inline(source)
    return {"type": "image_url", "image_url": {"url": address}}


def _document(block: Raw, *, takes_addresses: bool) -> Iterator[Raw]:
    source, title = fields(block.get("source")), word(block.get("title"))
    match source.get("type"):
        case "text":
            yield from _text(word(source.get("data")))
        case "content":
            yield from parts(blocks_of(source.get("content")), takes_addresses=takes_addresses)
        case "file":
            yield _file(file_id=word(source.get("file_id")))
        case "url" if takes_addresses:
            yield _file(filename=title or "document", file_data=word(source.get("url")))
        case "url":
            name = f"the document {title!r}" if title else "a document"
            yield {"type": "text", "text": f"[{name} is at {word(source.get('url'))}]"}
        case _:
            ending = guess_extension(word(source.get("media_type"))) or ""
            yield _file(filename=title or f"document{ending}", file_data=_inline(source))


def _file(**told: str) -> Raw:
    return {"type": "file", "file": told}


def _inline(source: Raw) -> str:
    return f"data:{word(source.get('media_type'))};base64,{word(source.get('data'))}"


def _found(block: Raw) -> Iterator[Raw]:
    """Yield what a search found: whence it is, and what it says."""
    head = filter(None, (word(block.get("title")), word(block.get("source"))))
    said = [part["text"] for part in parts(blocks_of(block.get("content"))) if "text" in part]
    yield from _text("\n".join([" – ".join(head), *said]))
