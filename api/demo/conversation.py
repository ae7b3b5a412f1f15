"""A conversation as a model reads it: the last question, and what the tools answered to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """One tool's answer, and what it was asked."""

    tool: str
    arguments: Mapping[str, Any]
    content: Any
    is_error: bool


class Conversation:
    """Messages in Anthropic's shape, from the last question of a person on."""

    def __init__(self, history: list[dict[str, Any]]) -> None:
        asked = [place for place, message in enumerate(history) if _question(message)]
        self.question = _question(history[asked[-1]]) if asked else ""
        self._answers = list(_answers(history[asked[-1] + 1 :] if asked else history))

    def results(self, tool: str) -> list[Answer]:
        """Return what the tool has answered since the question, in the order of the calls."""
        return [answer for answer in self._answers if answer.tool == tool]


def _question(message: Mapping[str, Any]) -> str:
    """Return what a person wrote; tools' results come in the same role, but without text."""
    if message["role"] != "user":
        return ""
    return "\n".join(block["text"] for block in _blocks(message) if block["type"] == "text")


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content: str | list[dict[str, Any]] = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answers(messages: list[dict[str, Any]]) -> Iterator[Answer]:
    """Pair results with the calls of the message before: a model may use an id once a turn."""
    calls: dict[str, dict[str, Any]] = {}
    for block in (block for message in messages for block in _blocks(message)):
        if block["type"] == "tool_use":
            calls[block["id"]] = block
        elif block["type"] == "tool_result":
            call = calls.pop(block["tool_use_id"])
            yield _answer(call["name"], call["input"], block)


def _answer(tool: str, arguments: Mapping[str, Any], block: Mapping[str, Any]) -> Answer:
    content = "".join(part.get("text", "") for part in _blocks(block))
    if block.get("is_error"):
        return Answer(tool, arguments, content, is_error=True)
    return Answer(tool, arguments, json.loads(content), is_error=False)
