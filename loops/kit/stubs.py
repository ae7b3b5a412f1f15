"""What old calls and results are replaced by, so that a model can read on without them.

The pairing of calls and results is left as it is: only what stands in them becomes a short line.
"""

from collections.abc import Callable, Collection, Sequence
from typing import cast

from loops.blocks import Raw

from .estimate import blocks_of, tokens_of

OLD_RESULT = "[Old tool result cleared]"
"""What stands for the content of an old result."""

OLD_INPUT = "[Old input cleared]"
"""What stands for a long text among the arguments of an old call."""

LONGEST_INPUT = 1_000
"""How many characters of an argument are kept."""

KEPT_TOOLS = ("skill",)
"""The tools whose results hold all along: what a skill says is no passing news."""


def stubbed(messages: Sequence[Raw], *, keep: Collection[str] = KEPT_TOOLS) -> list[Raw]:
    """Return the messages with the contents of results, and long arguments, replaced by a line.

    Args:
        messages: A part of a history; calls whose results are to be kept must be in it.
        keep: The names of tools whose results stay whole.
    """
    names: dict[object, object] = {}

    def short(block: Raw) -> Raw:
        if block.get("type") == "tool_use":
            names[block.get("id")] = block.get("name")
            return _replaced(block, "input", _short_input(block.get("input")))
        if block.get("type") == "tool_result" and names.get(block.get("tool_use_id")) not in keep:
            return _replaced(block, "content", OLD_RESULT)
        return block

    return [changed(message, short) for message in messages]


def freed(
    messages: Sequence[Raw], start: int, end: int, *, keep: Collection[str] = KEPT_TOOLS
) -> int:
    """Return about how many tokens it frees to stub the messages from `start` up to `end`.

    The messages before `start` are only asked which call a result belongs to.
    """
    start, end = max(0, start), max(0, end)
    shorter = stubbed(messages[:end], keep=keep)
    pairs = zip(messages[start:end], shorter[start:], strict=True)
    return max(0, sum(tokens_of(old) - tokens_of(new) for old, new in pairs if old is not new))


def changed(message: Raw, change: Callable[[Raw], Raw]) -> Raw:
    """Return the message with each of its blocks changed, or itself if no block is another one."""
    blocks = blocks_of(message)
    replaced = [change(block) for block in blocks]
    if all(new is old for new, old in zip(replaced, blocks, strict=True)):
        return message
    return {**message, "content": replaced}


def _replaced(block: Raw, key: str, value: object) -> Raw:
    return block if block.get(key) is value else {**block, key: value}


def _short_input(value: object) -> object:
    """Return the value with each long text in it replaced, or itself if there is none."""
    if isinstance(value, str):
        return OLD_INPUT if len(value) > LONGEST_INPUT else value
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        shorter = {name: _short_input(each) for name, each in fields.items()}
        return fields if _same(shorter.values(), fields.values()) else shorter
    if isinstance(value, list):
        entries = cast("list[object]", value)
        short = [_short_input(each) for each in entries]
        return entries if _same(short, entries) else short
    return value


def _same(one: Collection[object], other: Collection[object]) -> bool:
    return all(new is old for new, old in zip(one, other, strict=True))


__all__ = [
    "KEPT_TOOLS",
    "LONGEST_INPUT",
    "OLD_INPUT",
    "OLD_RESULT",
    "changed",
    "freed",
    "stubbed",
]
