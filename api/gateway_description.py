"""What the API says of its gateway to machines: paths whose protocols others have described.

Of a body only what is read here is named; the rest of it is the provider's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loops.gateway.rounds import Mode

from .sse import MEDIA_TYPE as EVENT_STREAM
from .wording import CHAT, MESSAGES

Schema = dict[str, Any]

_FAILURE_OF_MESSAGES: Schema = {
    "type": "object",
    "description": "Why there is no answer, in the words of Anthropic's Messages.",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
        "request_id": {"type": "string"},
    },
}

_FAILURE_OF_CHAT: Schema = {
    "type": "object",
    "description": "Why there is no answer, in the words of OpenAI's Chat Completions.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        },
    },
}

FAILURES: dict[str, Schema] = {
    "FailureOfMessages": _FAILURE_OF_MESSAGES,
    "FailureOfChat": _FAILURE_OF_CHAT,
}
"""What the paths answer in the place of problem JSON."""

_ASKED: Schema = {
    "type": "object",
    "required": ["model", "messages"],
    "additionalProperties": True,
    "properties": {
        "model": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "A name of GET /v1/models: a configured model, or `agent/<name>`.",
        },
        "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        "stream": {"type": ["boolean", "null"]},
    },
}

_STREAMING: Schema = {
    "name": "X-Loopmill-Streaming",
    "in": "header",
    "required": False,
    "description": "What is seen of calls that a callback takes up.",
    "schema": {"enum": [mode.value for mode in Mode]},
}


def gateway_paths(once: Schema) -> dict[str, dict[str, Schema]]:
    """Return the paths that are asked with a POST; `once` describes `Idempotency-Key`."""
    return {
        MESSAGES: {"post": _asking("Answer as Anthropic's Messages does.", "messages", once)},
        f"{MESSAGES}/count_tokens": {
            "post": _asking("Count the tokens of a request to Messages.", "count_tokens", once)
        },
        CHAT: {"post": _asking("Answer as OpenAI's Chat Completions does.", "completions", once)},
    }


def with_failures(models: Mapping[str, Any]) -> Schema:
    """Return the description of the list of models, whose refusals are in either protocol."""
    either = {"anyOf": [_reference(name) for name in FAILURES]}
    refused = {"description": "The request was refused.", "content": _json(either)}
    return {**models, "responses": {**models["responses"], "default": refused}}


def _asking(about: str, name: str, once: Schema) -> Schema:
    is_chat = name == "completions"
    failure = _reference("FailureOfChat" if is_chat else "FailureOfMessages")
    told: Schema = _json({"type": "object"})
    if name != "count_tokens":
        told[EVENT_STREAM] = {"schema": {"type": "string"}}
    headers = {"X-Request-ID": {"description": "The run's id.", "schema": {"type": "string"}}}
    return {
        "summary": about,
        "operationId": f"ask_{name}",
        "parameters": [_STREAMING, once],
        "requestBody": {"required": True, "content": _json(_ASKED)},
        "responses": {
            "200": {"description": "The answer.", "headers": headers, "content": told},
            "default": {"description": "There is no answer.", "content": _json(failure)},
        },
    }


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
