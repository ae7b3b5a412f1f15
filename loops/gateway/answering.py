"""Reads a tool's calls out of a reply, and writes the turns that answer them, on both surfaces.

It is made for callbacks, of what a callback's methods are given, and pure.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loops.blocks import Raw
from loops.providers.told import fields, listed

from .message_fold import input_of
from .shapes import THOUGHTS

CHAT = frozenset({"chat_completions", "acompletion", "completion"})
"""What chat completions are called, by `_agentic_loop_api_surface` or by a `call_type`."""

ROOM = 1024
"""How many tokens a reply has for its text, beside what it thinks, where nobody said."""


@dataclass(frozen=True, slots=True)
class ToolShape:
    """A tool as both surfaces know it."""

    name: str
    description: str
    schema: Raw

    def written(self, *, chat: bool) -> Raw:
        """Return the tool as it stands in a request."""
        about = {"name": self.name, "description": self.description}
        if chat:
            return {"type": "function", "function": {**about, "parameters": self.schema}}
        return {**about, "input_schema": self.schema}


def is_chat(kwargs: Mapping[str, Any]) -> bool:
    """Say whether a callback's method is called for a chat completion."""
    return kwargs.get("_agentic_loop_api_surface") in CHAT


def name_of_tool(tool: object) -> str:
    """Return the name of a request's tool, in either shape; empty where it has none."""
    named = member(member(tool, "function") or tool, "name")
    return named if isinstance(named, str) else ""


def calls_of(response: object, name: str) -> list[Raw]:
    """Return the calls of one tool as blocks: `{type, id, name, input}`, in their order."""
    found = _blocks_of_calls(response)
    return [each for each in found if each["name"] == name]


def answered(
    response: object, calls: Sequence[Mapping[str, Any]], texts: Iterable[str], *, chat: bool
) -> list[Raw]:
    """Return the model's turn with these calls alone, and the turn that answers them.

    What the model thought stands first, since a provider refuses the turn without it.
    """
    results = [*zip(calls, texts, strict=True)]
    if not chat:
        said = [dict(each) for each in _dicts(member(response, "content"))]
        thought = [each for each in said if each.get("type") in THOUGHTS]
        told = [each for each in said if each.get("type") == "text" and each.get("text")]
        asked = [{key: each[key] for key in ("type", "id", "name", "input")} for each in calls]
        given = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": text}
            for each, text in results
        ]
        return [
            {"role": "assistant", "content": [*thought, *told, *asked]},
            {"role": "user", "content": given},
        ]
    return [
        {"role": "assistant", "content": _chat_text(response), "tool_calls": [*map(_chat, calls)]},
        *({"role": "tool", "tool_call_id": each["id"], "content": text} for each, text in results),
    ]


def lifted_limit(params: Mapping[str, Any]) -> int | None:
    """Return a limit above what the model may think, where the request's is not; else None."""
    budget = member(params.get("thinking"), "budget_tokens")
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        return None
    if not math.isfinite(budget) or budget <= 0:
        return None
    limit = params.get("max_tokens")
    has_room = isinstance(limit, int | float) and limit > budget
    return None if has_room else math.ceil(budget) + ROOM


def member(value: object, name: str) -> Any:
    """Return a member of a dict or of an object; None where it has none."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return None if value is None else getattr(value, name, None)


def _blocks_of_calls(response: object) -> list[Raw]:
    blocks = [dict(each) for each in _dicts(member(response, "content"))]
    uses = [
        {key: each.get(key) for key in ("type", "id", "name", "input")}
        for each in blocks
        if each.get("type") == "tool_use"
    ]
    return uses or [_use(each) for each in _dicts(member(_message(response), "tool_calls"))]


def _use(call: Mapping[str, Any]) -> Raw:
    function = call.get("function")
    written = member(function, "arguments")
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": member(function, "name"),
        "input": input_of(written) if isinstance(written, str) else fields(written),
    }


def _chat(call: Mapping[str, Any]) -> Raw:
    arguments = json.dumps(call["input"], ensure_ascii=False)
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": arguments},
    }


def _chat_text(response: object) -> str | None:
    text = member(_message(response), "content")
    if isinstance(text, str):
        return text or None
    texts = [each.get("text") for each in _dicts(member(response, "content"))]
    return "".join(each for each in texts if isinstance(each, str)) or None


def _message(response: object) -> object:
    choices = listed(member(response, "choices"))
    return member(choices[0], "message") if choices else None


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [cast("Mapping[str, Any]", each) for each in listed(value) if isinstance(each, Mapping)]
