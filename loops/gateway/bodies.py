"""Plain bodies: the calls in them, and how one protocol's becomes one of the other; pure."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from loops.blocks import Raw
from loops.providers.told import fields, listed, objects, word

from .json_rows import canonical_text, dumped
from .message_fold import UNREADABLE, input_of
from .reasons import chat_reason, reason_left, reason_of_chat
from .rounds import Surface
from .usages import chat_usage, message_usage, usage_of_chat, usage_of_message


@dataclass(frozen=True, slots=True)
class CallIn:
    """The model's wish that a tool be called."""

    place: int
    """Its place in the message's content, or in the `tool_calls` of a chat completion."""
    id: str
    name: str
    arguments: dict[str, Any]
    """What is no JSON object stands under `UNREADABLE`, as it was written."""

    @property
    def fingerprint(self) -> tuple[str, str]:
        """What is the same for the same call, whatever its id, however it was written."""
        return self.name, canonical_text(self.arguments)


def calls_in(surface: Surface, body: Raw) -> list[CallIn]:
    """Return the calls that the caller of the body, or a callback, is to answer.

    Of a chat completion only the first choice counts, and in it only calls of functions.
    """
    if surface is Surface.MESSAGES:
        blocks = enumerate(_content(body))
        return [call_of_block(at, fields(each)) for at, each in blocks if is_call(each)]
    told = enumerate(_tool_calls(body))
    return [call_of_chat(at, call) for at, call in told if isinstance(call.get("function"), dict)]


def is_call(block: object) -> bool:
    """Say whether a block of a message is a call that somebody beside its provider answers."""
    return fields(block).get("type") == "tool_use"


def call_of_block(place: int, block: Raw) -> CallIn:
    """Return the call that the block tells."""
    return CallIn(place, word(block.get("id")), word(block.get("name")), fields(block.get("input")))


def call_of_chat(place: int, call: Raw) -> CallIn:
    """Return the call that an entry of `tool_calls` tells."""
    function = fields(call.get("function")) or fields(call.get("custom"))
    written = word(function.get("arguments")) or word(function.get("input"))
    return CallIn(place, word(call.get("id")), word(function.get("name")), input_of(written))


def without_calls(surface: Surface, body: Raw, places: Collection[int]) -> Raw:
    """Return a copy of the body without the calls at these places.

    The reason of its end is mended where no call is left.
    """
    if not places:
        return dict(body)
    return _without_blocks(body, places) if surface is Surface.MESSAGES else _without(body, places)


def _without_blocks(body: Raw, places: Collection[int]) -> Raw:
    content = _content(body)
    left = [block for at, block in enumerate(content) if at not in places]
    counts = {"shown": sum(map(is_call, left)), "hidden": len(content) - len(left)}
    reason = reason_left(Surface.MESSAGES, body.get("stop_reason"), **counts)
    return {**body, "content": left, "stop_reason": reason}


def _without(body: Raw, places: Collection[int]) -> Raw:
    first, *others = objects(body.get("choices")) or [{}]
    calls = _tool_calls(body)
    left = [call for at, call in enumerate(calls) if at not in places]
    message = {name: each for name, each in _message(first).items() if name != "tool_calls"}
    if left:
        message["tool_calls"] = left
    counts = {"shown": len(left), "hidden": len(calls) - len(left)}
    reason = reason_left(Surface.CHAT, first.get("finish_reason"), **counts)
    return {**body, "choices": [{**first, "message": message, "finish_reason": reason}, *others]}


def _content(body: Raw) -> list[object]:
    return listed(body.get("content"))


def _message(choice: Raw) -> Raw:
    return fields(choice.get("message"))


def _tool_calls(body: Raw) -> list[Raw]:
    return objects(_message(_first_choice(body)).get("tool_calls"))


def _first_choice(body: Raw) -> Raw:
    choices = objects(body.get("choices"))
    return choices[0] if choices else {}


def chat_of_message(body: Raw) -> Raw:
    """Return the body of a message as that of a chat completion.

    What the model thought becomes its `reasoning_content`; blocks that the other protocol has no
    form for are left out.
    """
    blocks = [fields(each) for each in _content(body)]
    text = "".join(word(each.get("text")) for each in blocks if each.get("type") == "text")
    thought = "".join(word(each.get("thinking")) for each in blocks)
    calls = [_chat_call(each) for each in blocks if is_call(each)]
    message: Raw = {"role": "assistant", "content": text if text or not calls else None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    reason = chat_reason(word(body.get("stop_reason")), has_calls=bool(calls))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {
        "id": body.get("id", ""),
        "object": "chat.completion",
        "created": body.get("created", 0),
        "model": body.get("model", ""),
        "choices": [choice],
        "usage": chat_usage(usage_of_message(body.get("usage"))),
    }


def _chat_call(block: Raw) -> Raw:
    call = call_of_block(0, block)
    is_readable = set(call.arguments) != {UNREADABLE}
    written = dumped(call.arguments) if is_readable else str(call.arguments[UNREADABLE])
    function = {"name": call.name, "arguments": written}
    return {"id": call.id, "type": "function", "function": function}


def message_of_chat(body: Raw) -> Raw:
    """Return the body of a chat completion, of which the first choice counts, as a message's."""
    first = _first_choice(body)
    message = _message(first)
    thought = next((told for name in _REASONING if (told := word(message.get(name)))), "")
    thinking = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    texts = [_text_of(message.get("content")), word(message.get("refusal"))]
    said = [{"type": "text", "text": text} for text in texts if text]
    calls = [_block_of(call_of_chat(0, call)) for call in objects(message.get("tool_calls"))]
    reason = reason_of_chat(word(first.get("finish_reason")), has_calls=bool(calls))
    return {
        "id": body.get("id", ""),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": [*thinking, *said, *calls],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": message_usage(usage_of_chat(body.get("usage"))),
    }


_REASONING = ("reasoning_content", "reasoning", "thinking")
"""The names under which services tell what a model thinks."""


def _text_of(content: object) -> str:
    """Return the text of a message, which a few services send by parts."""
    parts = objects(content)
    return word(content) or "".join(word(part.get("text")) for part in parts)


def _block_of(call: CallIn) -> Raw:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
