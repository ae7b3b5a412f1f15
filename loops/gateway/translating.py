"""A caller's request in the words of the provider that is asked; pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from loops.blocks import Raw, RedactedThinkingBlock, ThinkingBlock
from loops.errors import InvalidRequest
from loops.messages import Message
from loops.model import ModelRequest
from loops.providers.openai_request import to_wire
from loops.providers.told import fields, listed, whole_number, word
from loops.providers.vendors import Dialect

from .call import is_inner
from .rounds import Surface
from .shapes import THOUGHTS, calls_beside, canonical, tool_spec
from .wishes import params_of, unforced, wishes_of

_NOT_THEIRS = frozenset(
    {
        *("api_base", "base_url", "api_key", "organization", "custom_llm_provider"),
        *("extra_headers", "extra_body", "proxies", "mock_response", "max_agentic_loops"),
    }
)
"""Fields with which a caller might choose whom we ask, with what, or how often."""


def cleaned_body(body: Mapping[str, Any]) -> Raw:
    """Return a body without what is not its caller's to say; all else is the provider's business.

    The same is taken out of both protocols.
    """
    return {
        name: value
        for name, value in body.items()
        if name not in _NOT_THEIRS and not is_inner(name)
    }


def model_request(
    surface: Surface, body: Mapping[str, Any], protocol: Surface = Surface.MESSAGES
) -> ModelRequest:
    """Return the request of a body, for a model that may speak another protocol.

    What only the body's own protocol has words for is left out, where the reply is one all the
    same.

    Args:
        surface: The protocol of the body.
        body: The request.
        protocol: What the model's provider speaks: `params` is in its words.

    Raises:
        InvalidRequest: When the request cannot be said otherwise: a tool of a provider's own,
            sound, several answers, or a message that is none.
    """
    told = body.get("messages")
    if not isinstance(told, list):
        raise InvalidRequest("messages: it is a list of messages", status=400)
    messages = canonical(map(fields, cast("list[object]", told)))
    system, messages = _front(body, messages)
    tools = tuple(tool_spec(tool) for tool in _tools(body))
    params = params_of(wishes_of(surface, body), protocol)
    if not tools:
        # A provider refuses a choice among none.
        params.pop("tool_choice", None)
        params.pop("parallel_tool_calls", None)
    if protocol is Surface.MESSAGES and not _takes_thinking(messages):
        params.pop("thinking", None)
    model, limit = word(body.get("model")), _limit(body)
    return ModelRequest(model, tuple(messages), system, tools, limit, params)


def _front(body: Mapping[str, Any], messages: list[Message]) -> tuple[str, list[Message]]:
    """Return what the system says before all else, and the messages that follow it."""
    said = body.get("system")
    texts = [said] if isinstance(said, str) else []
    texts += [word(fields(part).get("text")) for part in listed(said)]
    count = next((n for n, each in enumerate(messages) if each.role != "system"), len(messages))
    texts += [message.text for message in messages[:count]]
    return "\n\n".join(filter(None, texts)), messages[count:]


def _tools(body: Mapping[str, Any]) -> list[Raw]:
    tools, legacy = listed(body.get("tools")), listed(body.get("functions"))
    return [*map(fields, tools), *({"type": "function", "function": each} for each in legacy)]


def _limit(body: Mapping[str, Any]) -> int | None:
    told = (whole_number(body.get(name)) for name in ("max_tokens", "max_completion_tokens"))
    return next((limit for limit in told if limit is not None), None)


def _takes_thinking(messages: Sequence[Message]) -> bool:
    """Whether Anthropic's service lets the model think: not in the middle of a turn without it."""
    last = next((each for each in reversed(messages) if each.role == "assistant"), None)
    if last is None or not last.tool_calls:
        return True
    thoughts = (ThinkingBlock, RedactedThinkingBlock)
    return any(isinstance(block, thoughts) for block in last.content)


_ANTHROPICS = frozenset(
    {
        *("tool_use", "tool_result", "image", "document", "search_result"),
        *THOUGHTS,
    }
)
"""Blocks that only Messages has."""

_OPENAIS = frozenset({"image_url", "input_audio", "file", "refusal"})
"""Parts that only Chat Completions has."""


def in_shape_of(surface: Surface, messages: Sequence[Raw]) -> list[Raw]:
    """Return the messages in the shape of the surface, whichever of the two each has.

    What is in that shape already stays the same object.

    Raises:
        InvalidRequest: When a message has no shape of either protocol.
    """
    shaped: list[Raw] = []
    for is_foreign, each in groupby(messages, key=lambda one: _is_foreign(surface, one)):
        if not is_foreign:
            shaped += each
        elif surface is Surface.MESSAGES:
            shaped += [message.raw() for message in canonical(each)]
        else:
            shaped += _chat_messages(canonical(each))
    return shaped


def _chat_messages(messages: Sequence[Message]) -> list[Raw]:
    """Return the messages in the shape of Chat Completions; what they think is left out."""
    if not messages:
        return []
    told: list[Raw] = to_wire(ModelRequest("", tuple(messages)), Dialect())["messages"]
    return told


def _is_foreign(surface: Surface, message: Raw) -> bool:
    content = message.get("content")
    kinds = {word(fields(part).get("type")) for part in listed(content)}
    if surface is Surface.CHAT:
        return not kinds.isdisjoint(_ANTHROPICS)
    is_answer = message.get("role") in {"tool", "function"}
    has_calls = bool(message.get("tool_calls") or message.get("function_call"))
    return is_answer or has_calls or content is None or not kinds.isdisjoint(_OPENAIS)


def without_forced_choice(surface: Surface, body: Raw) -> Raw:
    """Return a body that forces no call: a tool that has been answered need not be called again.

    A body that forces nothing is returned itself.
    """
    if "tool_choice" not in body:
        return body
    choice = unforced(surface, body["tool_choice"])
    return body if choice is body["tool_choice"] else {**body, "tool_choice": choice}


def with_thinking(messages: Sequence[Raw], reply: Mapping[str, Any]) -> list[Raw]:
    """Return a follow-up in which the reply's thinking stands before the calls of the reply.

    Providers that let a model think want it back with the calls, and a callback may have left it
    out. The message that repeats the calls gets it, if it has none; others are the same objects.

    Args:
        messages: The follow-up, in the shape of the surface.
        reply: The reply's body, whose calls the follow-up answers.
    """
    said = _said(reply)
    blocks = [b for b in _blocks(said) if b.get("type") in THOUGHTS]
    kept = {name: said[name] for name in _THOUGHT_BESIDE if said.get(name)}
    ids = _ids(said)
    shaped = list(messages)
    for place in reversed(range(len(shaped))):
        message = shaped[place]
        if message.get("role") == "assistant" and not ids.isdisjoint(_ids(message)):
            shaped[place] = _thinking(message, blocks, kept)
            break
    return shaped


_THOUGHT_BESIDE = ("reasoning_content", "thinking_blocks")
"""Where services of Chat Completions tell what a model thought, and want it told again."""


def _said(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what stands for the model's message in a whole body of either protocol."""
    choices = listed(reply.get("choices"))
    return fields(fields(choices[0]).get("message")) if choices else reply


def _blocks(message: Mapping[str, Any]) -> list[Raw]:
    return [*map(fields, listed(message.get("content")))]


def _ids(message: Mapping[str, Any]) -> set[str]:
    named = [block for block in _blocks(message) if block.get("type") == "tool_use"]
    return {word(each.get("id")) for each in (*named, *calls_beside(message))} - {""}


def _thinking(message: Raw, blocks: list[Raw], kept: Raw) -> Raw:
    own = _blocks(message)
    if any(block.get("type") in THOUGHTS for block in own):
        return message
    if blocks and isinstance(message.get("content"), list):
        return {**message, "content": [*blocks, *own]}
    missing = {name: value for name, value in kept.items() if not message.get(name)}
    return {**message, **missing} if missing else message
