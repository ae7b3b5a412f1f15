"""The callback that shortens long results of tools, and gives the model the rest when it asks.

Nothing is stored: a text's key is its digest, and the caller's own request still has the text. So
it stands before callbacks that change what tools have answered.
"""

# ruff: noqa: ARG002, FBT001, PLR0913, PLR0917 - its methods are those of the base class

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from loops.blocks import Raw
from loops.providers.told import listed

from .answering import (
    CHAT,
    ToolShape,
    answered,
    calls_of,
    is_chat,
    lifted_limit,
    member,
    name_of_tool,
)
from .custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger

NAME = "litellm_content_retrieve"

TOOL = ToolShape(
    NAME,
    "Read on in a long result of a tool that was shortened. The shortened result names its key.",
    {
        "type": "object",
        "properties": {
            "key": {"type": "string", "description": "The key that the shortened result names."},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "The character to begin with, from 0.",
            },
        },
        "required": ["key"],
    },
)

NO_KEY = "No retrieval key provided."

CHARACTERS_A_TOKEN = 4
"""How much of a request makes a token, roughly."""


class Compression(CustomLogger):
    """Shortens results of tools in a request, and answers the model's calls for the rest.

    Args:
        longest: A result with more characters is shortened.
        trigger: A request with fewer tokens, roughly, is left alone.
        shown: How many characters of a shortened result stay.
        piece: How many characters one call gives back at most.
    """

    server_fulfilled_tool_names: ClassVar[frozenset[str]] = frozenset({NAME})

    def __init__(
        self,
        *,
        longest: int = 20_000,
        trigger: int = 0,
        shown: int | None = None,
        piece: int = 100_000,
    ) -> None:
        self._longest = longest
        self._trigger = trigger
        self._shown = longest // 10 if shown is None else shown
        self._piece = piece

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Return the request with its long results shortened; None where there is none."""
        tools, messages = listed(data.get("tools")), listed(data.get("messages"))
        # Where the model may call nothing, or means another tool by the name, all has to stay.
        can_ask = _choice_of(data) != "none" and NAME not in map(name_of_tool, tools)
        if not can_ask or (self._trigger and _tokens_in(data) < self._trigger):
            return None
        shorter = [self._shortened(each) for each in messages]
        if shorter == messages:
            return None
        tool = TOOL.written(chat=call_type in CHAT)
        return {**data, "messages": shorter, "tools": [*tools, tool]}

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        """Take up the calls for shortened results."""
        has_tool = NAME in map(name_of_tool, tools or [])
        calls = calls_of(response, NAME) if has_tool else []
        return bool(calls), {"tool_calls": calls} if calls else {}

    async def async_build_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Answer the calls out of the caller's request."""
        limit = lifted_limit(anthropic_messages_optional_request_params)
        return self._plan(tools, messages, response, kwargs, limit)

    async def async_build_chat_completion_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        optional_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Answer the calls out of the caller's request."""
        return self._plan(tools, messages, response, kwargs, lifted_limit(optional_params))

    def _plan(
        self,
        gate: Mapping[str, Any],
        messages: Sequence[Raw],
        response: object,
        kwargs: Mapping[str, Any],
        limit: int | None,
    ) -> AgenticLoopPlan:
        calls = gate["tool_calls"]
        kept = _texts_of(kwargs)
        texts = [self._read(kept, each["input"]) for each in calls]
        turns = answered(response, calls, texts, chat=is_chat(kwargs))
        patch = AgenticLoopRequestPatch(messages=[*messages, *turns], max_tokens=limit)
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)

    def _read(self, kept: Mapping[str, str], arguments: object) -> str:
        key = member(arguments, "key")
        if not isinstance(key, str) or not key:
            return NO_KEY
        text = kept.get(key)
        if text is None:
            return f"[compressed content key '{key}' not found]"
        start = _offset(member(arguments, "offset"))
        end = start + self._piece
        if start and start >= len(text):
            return f"[there is nothing at {start}: the text has {len(text)} characters]"
        if end >= len(text):
            return text[start:]
        told = f"[characters {start} to {end} of {len(text)}; to read on, call again with offset"
        return f"{text[start:end]}\n\n{told} {end}]"

    def _shortened(self, message: Any) -> Any:
        """Return the message with its long results shortened; itself where it has none."""
        match member(message, "role"):
            case "tool":
                return {**message, "content": self._short(message.get("content"))}
            case "user" if isinstance(message.get("content"), list):
                blocks = [self._short_block(each) for each in message["content"]]
                return {**message, "content": blocks}
            case _:
                return message

    def _short_block(self, block: Any) -> Any:
        is_result = member(block, "type") == "tool_result" and "content" in block
        return {**block, "content": self._short(block["content"])} if is_result else block

    def _short(self, content: Any) -> Any:
        if isinstance(content, str):
            return self._short_text(content)
        return [self._short_part(each) for each in listed(content)] or content

    def _short_part(self, part: Any) -> Any:
        text = member(part, "text")
        return {**part, "text": self._short_text(text)} if isinstance(text, str) else part

    def _short_text(self, text: str) -> str:
        if len(text) <= self._longest:
            return text
        told = (
            f"[shortened: this is the beginning of {len(text)} characters. "
            f"To read on, call {NAME} with key '{_key(text)}' and offset {self._shown}]"
        )
        shorter = f"{text[: self._shown]}\n\n{told}"
        return shorter if len(shorter) < len(text) else text


def _key(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        return 0
    return max(0, int(value))


def _choice_of(data: Mapping[str, Any]) -> object:
    choice = data.get("tool_choice")
    return choice if isinstance(choice, str) else member(choice, "type")


def _tokens_in(data: Mapping[str, Any]) -> int:
    told = {name: data.get(name) for name in ("system", "tools", "messages")}
    return len(json.dumps(told, ensure_ascii=False, default=str)) // CHARACTERS_A_TOKEN


def _texts_of(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of all results of tools in the caller's request, by their keys."""
    body = member(kwargs.get("proxy_server_request"), "body")
    messages = listed(member(body, "messages"))
    return {_key(text): text for each in messages for text in _texts(each)}


def _texts(message: Any) -> Iterator[str]:
    content = member(message, "content")
    if member(message, "role") == "tool":
        yield from _texts_in(content)
    elif member(message, "role") == "user":
        for block in listed(content):
            if member(block, "type") == "tool_result":
                yield from _texts_in(member(block, "content"))


def _texts_in(content: Any) -> Iterator[str]:
    parts = [content] if isinstance(content, str) else [member(e, "text") for e in listed(content)]
    yield from (each for each in parts if isinstance(each, str))
