"""A request to a Chat Completions service; pure.

The protocol has one message for each result, and it takes no picture in one: a result's pictures
follow in the user's next message. What a model thought is told again only to services that want it.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import orjson

from loops.blocks import Raw, ThinkingBlock, ToolResultBlock, ToolUseBlock
from loops.messages import Message
from loops.model import ModelRequest, ToolSpec

from .asked import added, added_tools, refuse_empty
from .openai_parts import blocks_of, parts
from .thinking import wish_of
from .vendors import Dialect


def to_wire(request: ModelRequest, dialect: Dialect, *, tells_usage: bool = True) -> Raw:
    """Return the body of the request; what `params` says goes before all that we say.

    Raises:
        InvalidRequest: When there is nothing to answer.
    """
    params = request.params
    told = list(_messages(request, dialect))
    refuse_empty(request, told)
    system = [_system(request.system, dialect)] if request.system.strip() else []
    body: Raw = {"model": request.model, "messages": system + told}
    if tools := [_tool(tool) for tool in request.tools] + added_tools(params):
        body["tools"] = tools
    if request.max_tokens is not None:
        body[dialect.limit_name] = request.max_tokens
    if tells_usage:
        body["stream_options"] = {"include_usage": True}
    wish = wish_of(params)
    if wish is None:
        return {**body, **added(params, _OURS), "stream": True}
    thinking = {} if dialect.thinking is None else dialect.thinking(wish)
    return {**body, **thinking, **added(params, _OURS | {"thinking"}), "stream": True}


_OURS = frozenset({"tools", "model", "messages", "stream"})
"""What of `params` is no field of the body, or not theirs to say."""


def _tool(tool: ToolSpec) -> Raw:
    parameters = dict(tool.schema)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _system(text: str, dialect: Dialect) -> Raw:
    return {"role": dialect.system_role, "content": text}


def _messages(request: ModelRequest, dialect: Dialect) -> Iterator[Raw]:
    for is_answer, messages in groupby(request.messages, key=lambda each: each.role in _ANSWERS):
        if is_answer:
            yield from _answers(messages, dialect)
            continue
        for message in messages:
            if message.role == "assistant":
                yield from _assistant(message, dialect)
            elif message.text.strip():
                yield _system(message.text, dialect)


_ANSWERS = frozenset({"user", "tool"})
"""Whose messages answer a reply."""


def _assistant(message: Message, dialect: Dialect) -> Iterator[Raw]:
    told: Raw = {"role": "assistant", "content": message.text or None}
    if calls := [_call(block) for block in message.tool_calls]:
        told["tool_calls"] = calls
    thought = "".join(b.thinking for b in message.content if isinstance(b, ThinkingBlock))
    if thought and dialect.reasoning_name:
        told[dialect.reasoning_name] = thought
    if calls or told["content"]:
        yield told


def _call(block: ToolUseBlock) -> Raw:
    arguments = orjson.dumps(block.input).decode()
    return {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": arguments},
    }


def _answers(messages: Iterable[Message], dialect: Dialect) -> Iterator[Raw]:
    """Yield what answers one reply: all results before anything else."""
    said: list[list[Raw]] = []
    for message in messages:
        content: list[Raw] = []
        for result in message.tool_results:
            text, pictures = _result(result, dialect)
            content += pictures
            yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
        blocks = (each.raw() for each in message.content if not isinstance(each, ToolResultBlock))
        content += parts(blocks, takes_addresses=dialect.takes_addresses)
        said.append(content)
    for content in filter(None, said):
        is_text = [part["type"] for part in content] == ["text"]
        yield {"role": "user", "content": content[0]["text"] if is_text else content}


def _result(result: ToolResultBlock, dialect: Dialect) -> tuple[str, list[Raw]]:
    """Return a result's text, and what of it only a user's message can carry."""
    told = list(parts(blocks_of(result.content), takes_addresses=dialect.takes_addresses))
    texts = [str(part["text"]) for part in told if part["type"] == "text"]
    others = [part for part in told if part["type"] != "text"]
    if others:
        texts.append("[what belongs to this result follows]")
    text = "\n".join(texts)
    # The protocol has no mark for a failure.
    return (f"[error] {text}" if result.is_error else text), others
