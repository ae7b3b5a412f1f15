"""A provider's own web search, as a caller asks for it and as he gets it: its blocks; pure.

A caller who has our blocks sends them back in his next request, to a model that knows nothing of
them. So what was found stands in them as well, and becomes text again.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from loops.blocks import Raw
from loops.providers.told import listed

from .answering import member, name_of_tool
from .searching import Result, Searched

FOUND = "web_search_tool_result"
OURS = "srvtoolu_loop"
"""What the ids of our blocks begin with."""

_OLD_NAMES = frozenset({"web_search", "WebSearch"})


def is_native(tool: object) -> bool:
    """Say whether a request's tool is a search that the provider does itself."""
    kind = member(tool, "type")
    return isinstance(kind, str) and f"{kind}_".startswith("web_search_")


def is_search(tool: object, name: str) -> bool:
    """Say whether a request's tool is a web search, and none of the client's own."""
    if is_native(tool) or name_of_tool(tool) == name:
        return True
    has_schema = any(member(tool, part) is not None for part in ("input_schema", "function"))
    return name_of_tool(tool) in _OLD_NAMES and not has_schema


def native_blocks(calls: Sequence[Mapping[str, Any]], found: Sequence[Searched]) -> list[Raw]:
    """Return the blocks by which a provider shows its own searches."""
    pairs = zip(calls, found, strict=True)
    return [block for call, each in pairs for block in _pair(str(call.get("id")), each)]


def _pair(call: str, found: Searched) -> tuple[Raw, Raw]:
    own = f"{OURS}{sha256(call.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"
    query = {"query": found.query}
    asked = {"type": "server_tool_use", "id": own, "name": "web_search", "input": query}
    failed = {"type": "web_search_tool_result_error", "error_code": found.code}
    content = failed if found.error else [_shown(each) for each in found.results]
    return asked, {"type": FOUND, "tool_use_id": own, "content": content}


def _shown(result: Result) -> Raw:
    kept = base64.b64encode(result.snippet.encode("utf-8", "surrogatepass")).decode()
    about = {"title": result.title, "url": result.url, "page_age": None}
    return {"type": "web_search_result", **about, "encrypted_content": kept}


def without_native_blocks(messages: object) -> list[Any]:
    """Return a request's messages with our blocks as text; the same where there are none."""
    return [_told(each) for each in listed(messages)]


def _told(message: Any) -> Any:
    blocks = listed(member(message, "content"))
    if member(message, "role") != "assistant" or not blocks:
        return message
    return {**message, "content": [_as_text(each) for each in blocks if not _is_ask(each)]}


def _is_ask(block: Any) -> bool:
    return member(block, "type") == "server_tool_use" and _is_ours(member(block, "id"))


def _is_ours(own: object) -> bool:
    return isinstance(own, str) and own.startswith(OURS)


def _as_text(block: Any) -> Any:
    if member(block, "type") != FOUND or not _is_ours(member(block, "tool_use_id")):
        return block
    content = member(block, "content")
    if member(content, "error_code") is not None:
        return {"type": "text", "text": "[a web search failed]"}
    texts = [_result(each).text for each in listed(content)]
    return {"type": "text", "text": "\n\n".join(["[found on the web]", *texts])}


def _result(shown: Any) -> Result:
    try:
        snippet = base64.b64decode(member(shown, "encrypted_content") or "").decode()
    except (binascii.Error, TypeError, ValueError):
        snippet = ""
    return Result(snippet, str(member(shown, "title") or ""), str(member(shown, "url") or ""))
