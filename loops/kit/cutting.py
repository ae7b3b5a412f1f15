"""Where a history may be cut, so that no call is parted from its result.

A border is the index of the message that would be the first of the newer part.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from loops.blocks import Raw

from .estimate import blocks_of, tokens_of


def cut(messages: Sequence[Raw], keep: int, start: int = 0) -> int | None:
    """Return the border before which a history may be summed up; None if there is none.

    From the border on there are about `keep` tokens: the walk from the end stops as soon as it has
    that many, and goes on forward to something that a user said, or else to a message of the model.
    Where nothing of that kind follows, as after a call with a result that is larger than `keep`, it
    goes back instead to the nearest of either. A history that keeps the pairing law keeps it in
    both parts.

    Args:
        messages: The history, oldest first.
        keep: How many tokens are to be kept word for word.
        start: The index of the first message that could be summed up; at least that one will be.
    """
    start = max(0, start)
    if len(messages) < start + 2:
        return None
    wholes = whole_borders(messages)
    begin = _walked_back(messages, keep, start + 1)
    later = [index for index in range(begin, len(messages)) if wholes[index]]
    earlier = [index for index in range(begin - 1, start, -1) if wholes[index]]
    for indexes, fits in ((later, is_said), (later, _is_answered), (earlier, _is_either)):
        found = _first(messages, indexes, fits)
        if found is not None:
            return found
    return None


def whole_borders(messages: Sequence[Raw]) -> list[bool]:
    """Say for each border, the one after the last message included, whether it parts no call.

    A result belongs to the latest call of its id that has none yet, however far away it is. A call
    of the last reply that has no result yet is still open: its result will come at the end.
    """
    opened: dict[object, list[int]] = {}
    steps = [0] * (len(messages) + 2)
    for index, message in enumerate(messages):
        for block in blocks_of(message):
            kind = str(block.get("type"))
            if kind.endswith("tool_use"):
                opened.setdefault(block.get("id"), []).append(index)
            elif kind.endswith("tool_result") and opened.get(block.get("tool_use_id")):
                steps[opened[block.get("tool_use_id")].pop() + 1] += 1
                steps[index + 1] -= 1
    last = _last_reply(messages)
    if any(last in unanswered for unanswered in opened.values()):
        steps[last + 1] += 1
    return [depth == 0 for depth in accumulate(steps[:-1])]


def fitting(messages: Sequence[Raw], room: int) -> int:
    """Return the first border after which a history takes at most `room` tokens.

    It is the end of the history, so that nothing is left, where not even its last part fits.
    """
    wholes = whole_borders(messages)
    best, taken = len(messages), 0
    for index in range(len(messages) - 1, -1, -1):
        taken += tokens_of(messages[index])
        if taken > room:
            break
        if wholes[index]:
            best = index
    return best


def is_said(message: Raw) -> bool:
    """Say whether a user says something in the message: not only results, and nothing of ours."""
    if message.get("role") != "user" or message.get("internal"):
        return False
    content = message.get("content")
    if isinstance(content, str):
        return bool(content.strip())
    return any(block.get("type") != "tool_result" for block in blocks_of(message))


def _is_answered(message: Raw) -> bool:
    return message.get("role") == "assistant" and not message.get("internal")


def _is_either(message: Raw) -> bool:
    return is_said(message) or _is_answered(message)


def _first(
    messages: Sequence[Raw], indexes: Sequence[int], fits: Callable[[Raw], bool]
) -> int | None:
    return next((index for index in indexes if fits(messages[index])), None)


def _walked_back(messages: Sequence[Raw], keep: int, first: int) -> int:
    taken = 0
    for index in range(len(messages) - 1, first, -1):
        taken += tokens_of(messages[index])
        if taken >= keep:
            return index
    return first


def _last_reply(messages: Sequence[Raw]) -> int:
    backwards = range(len(messages) - 1, -1, -1)
    return next((index for index in backwards if messages[index].get("role") == "assistant"), -1)


__all__ = ["cut", "fitting", "is_said", "whole_borders"]
