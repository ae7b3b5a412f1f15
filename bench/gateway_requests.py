"""What a gateway is asked, in both protocols."""

from __future__ import annotations

from typing import Any

from .callers import Request
from .drivers.gateway_upstream import TOOL, text

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
MODELS = {MESSAGES: "claude", CHAT: "gpt"}
"""What the models are called by the gateways' configurations; each speaks its path's protocol."""

_QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_ABOUT = "Look something up."
TOOLS: dict[str, list[dict[str, Any]]] = {
    MESSAGES: [{"name": TOOL, "description": _ABOUT, "input_schema": _QUERY}],
    CHAT: [
        {
            "type": "function",
            "function": {"name": TOOL, "description": _ABOUT, "parameters": _QUERY},
        }
    ],
}


def request(path: str, *, streams: bool, calls: bool) -> Request:
    """Return a request; one that calls is asked upstream twice, as a callback answers its call."""
    body: dict[str, Any] = {
        "model": MODELS[path],
        "max_tokens": 512,
        "messages": [{"role": "user", "content": "Say something about TAG, please."}],
    }
    if streams:
        body["stream"] = True
    if calls:
        body["tools"] = TOOLS[path]
    how = "streamed" if streams else "whole"
    name = f"{path.rpartition('/')[2]}, {how}{', a callback' if calls else ''}"
    return Request(name, path, body, _last_frame if streams else text)


def _last_frame(tag: str) -> str:
    """Return what the last delta of a stream has, in both protocols."""
    return f'"{tag}"'


PLAIN = tuple(
    request(path, streams=streams, calls=False)
    for path in (MESSAGES, CHAT)
    for streams in (False, True)
)
"""Each is one request upstream."""

CALLED = (
    request(MESSAGES, streams=False, calls=True),
    request(MESSAGES, streams=True, calls=True),
    request(CHAT, streams=False, calls=True),
)
"""Each is two. A streamed chat completion is not among them: neither asks a callback for it."""
