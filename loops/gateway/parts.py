"""The parts of a message of Chat Completions as blocks of Messages; pure."""

import re
from collections.abc import Callable, Mapping

from loops.blocks import Raw
from loops.errors import InvalidRequest
from loops.providers.told import fields, listed, word

_INLINE = re.compile(r"data:(?P<kind>[^;,]*)(?:;[^,]*)?;base64,(?P<data>.*)", re.DOTALL)


def blocks_of_parts(content: object) -> list[Raw]:
    """Return a message's content as blocks; those that are blocks already stay as they are.

    Raises:
        InvalidRequest: When a part is one that only its own protocol has, as sound.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(part) for part in map(fields, listed(content))]


def _block(part: Raw) -> Raw:
    kind = word(part.get("type"))
    if kind == "tool_result" and part.get("content") is None:
        return {**part, "content": ""}
    make = _MADE.get(kind)
    return part if make is None else make(part)


def _picture(part: Raw) -> Raw:
    told = part.get("image_url")
    address = told if isinstance(told, str) else word(fields(told).get("url"))
    return {"type": "image", "source": _source(address)}


def _file(part: Raw) -> Raw:
    told = fields(part.get("file"))
    if told.get("file_id"):
        return {"type": "document", "source": {"type": "file", "file_id": told["file_id"]}}
    source = _source(word(told.get("file_data")))
    title = {"title": told["filename"]} if told.get("filename") else {}
    return {"type": "document", "source": source, **title}


def _source(address: str) -> Raw:
    found = _INLINE.fullmatch(address)
    if found is None:
        return {"type": "url", "url": address}
    return {"type": "base64", "media_type": found["kind"], "data": found["data"]}


def _refused(part: Raw) -> Raw:
    return {"type": "text", "text": word(part.get("refusal"))}


def _sound(part: Raw) -> Raw:
    kind = word(part.get("type"))
    raise InvalidRequest(
        f"the model that is asked takes no part of the type {kind!r}; send text, pictures, files",
        status=400,
    )


_MADE: Mapping[str, Callable[[Raw], Raw]] = {
    "image_url": _picture,
    "file": _file,
    "refusal": _refused,
    "input_audio": _sound,
    "video_url": _sound,
}
