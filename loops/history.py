"""The pairing law: what goes to a provider has exactly one result for each call, in place.

After a message with calls come their results, before anything else. A history is read in chapters:
a message of the assistant, and what follows it up to the next one.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from .blocks import Block, TextBlock, ToolResultBlock, ToolUseBlock
from .errors import BrokenHistory
from .jsonable import fit
from .messages import Message, MessageLike, Messages

UNAVAILABLE = "Tool result not available"
"""What a call is answered whose result is lost."""

SHOWN = 10
"""How many issues of a history are named."""

logger = logging.getLogger("loopmill.history")

_NUL = "\\u0000"
"""How JSON tells a NUL."""

_BLOCK: TypeAdapter[Block] = TypeAdapter(Block)


@dataclass(frozen=True, slots=True)
class Issue:
    """Something in a history that no provider takes."""

    kind: str
    """unanswered_call, orphan_result, misplaced_result, repeated_id; or what stands in a block:
    empty_text, lone_surrogate, nul."""
    index: int
    """The message's place in the history."""
    detail: str


def inspect(messages: Iterable[MessageLike]) -> list[Issue]:
    """Return all issues, in the order of the history; none for one that is fit to be sent."""
    return _Repair(Messages.of(messages)).issues


def repair(messages: Iterable[MessageLike], *, unanswered: str = UNAVAILABLE) -> Messages:
    """Return a history that is fit to be sent; a fit one comes back equal.

    A call without a result gets an error result in place, a result without a call is dropped,
    ids that repeat are made unique, empty text is dropped, half characters and NULs are replaced.
    What is given is not changed, and repairing twice is the same as once. What is mended is logged,
    but for ids: some models number the calls of each reply anew. `unanswered` is what a call
    without a result is answered.
    """
    mended = _Repair(Messages.of(messages), unanswered)
    faults = [each for each in mended.issues if each.kind != "repeated_id"]
    if faults:
        logger.warning("a history is mended before it is sent: %s", _named(faults))
    return mended.repaired


def validate(messages: Iterable[MessageLike]) -> None:
    """Pass if the history is fit to be sent.

    Raises:
        BrokenHistory: When it is not; the text names what is wrong.
    """
    issues = inspect(messages)
    if issues:
        raise BrokenHistory(f"the history cannot be sent: {_named(issues)}; repair() mends it")


def _named(issues: Sequence[Issue]) -> str:
    more = ["and more"] if len(issues) > SHOWN else []
    return "; ".join([*(f"message {each.index}: {each.detail}" for each in issues[:SHOWN]), *more])


class _Repair:
    def __init__(self, messages: Messages, unanswered: str = UNAVAILABLE) -> None:
        self._unanswered = unanswered
        self.issues: list[Issue] = []
        self.repaired = Messages()
        self._ids: set[str] = set()
        cleaned = [(index, self._clean(index, each)) for index, each in enumerate(messages)]
        for head, rest in _chapters([(index, each) for index, each in cleaned if each.content]):
            self._chapter(head, rest)

    def _report(self, kind: str, index: int, detail: str) -> None:
        self.issues.append(Issue(kind, index, detail))

    def _clean(self, index: int, message: Message) -> Message:
        content = [self._fit(index, block) for block in message.content]
        kept = [block for block in content if not _is_blank(block)]
        if len(kept) < len(content) or not content:
            self._report("empty_text", index, "it holds text without a visible character")
        return message if kept == message.content else message.model_copy(update={"content": kept})

    def _fit(self, index: int, block: Block) -> Block:
        try:
            told = block.model_dump_json()
        except (PydanticSerializationError, UnicodeEncodeError):
            self._report("lone_surrogate", index, "it holds half a character")
            return _BLOCK.validate_python(fit(block.raw()))
        if _NUL in told and (fitted := _BLOCK.validate_python(fit(block.raw()))) != block:
            self._report("nul", index, "it holds a NUL, which many services refuse")
            return fitted
        return block

    def _chapter(self, head: "_Placed | None", rest: "list[_Placed]") -> None:
        calls: list[ToolUseBlock] = []
        names: list[str] = []
        if head is not None:
            index, message = head
            calls = message.tool_calls
            names = [self._unique(index, call) for call in calls]
            self.repaired.append(_renamed(message, names))
        if names == [call.id for call in calls] and _is_paired(calls, rest):
            self.repaired.extend(message for _, message in rest)
        else:
            self._pair(calls, names, rest, after=head[0] if head else 0)

    def _unique(self, index: int, call: ToolUseBlock) -> str:
        name, count = call.id or "call", 1
        while name in self._ids:
            count += 1
            name = f"{call.id or 'call'}_{count}"
        self._ids.add(name)
        if name != call.id:
            self._report("repeated_id", index, f"the id {call.id!r} of a call is not its own")
        return name

    def _pair(
        self,
        calls: Sequence[ToolUseBlock],
        names: Sequence[str],
        rest: "Sequence[_Placed]",
        *,
        after: int,
    ) -> None:
        found = [(index, block) for index, message in rest for block in message.tool_results]
        answers: list[Block] = []
        is_whole = True
        for call, name in zip(calls, names, strict=True):
            match = next((each for each in found if each[1].tool_use_id == call.id), None)
            if match is None:
                self._report("unanswered_call", after, f"the call {call.id!r} has no result")
                answers.append(
                    ToolResultBlock(tool_use_id=name, content=self._unanswered, is_error=True)
                )
                is_whole = False
            else:
                found.remove(match)
                answers.append(match[1].model_copy(update={"tool_use_id": name}))
        for index, block in found:
            self._report("orphan_result", index, f"the result of {block.tool_use_id!r} has no call")
        if is_whole and not found and answers and names == [call.id for call in calls]:
            self._report("misplaced_result", after, "its results do not come directly after it")
        if answers:
            self.repaired.append(Message(role="tool", content=answers))
        self.repaired.extend(_without_results(message for _, message in rest))


_Placed = tuple[int, Message]


def _chapters(placed: list[_Placed]) -> Iterator[tuple[_Placed | None, list[_Placed]]]:
    head: _Placed | None = None
    rest: list[_Placed] = []
    for each in placed:
        if each[1].role == "assistant":
            yield head, rest
            head, rest = each, []
        else:
            rest.append(each)
    yield head, rest


def _is_paired(calls: Sequence[ToolUseBlock], rest: Sequence[_Placed]) -> bool:
    """Say whether the results come first, one for each call and no other."""
    blocks = [block for _, message in rest for block in message.content]
    first = blocks[: len(calls)]
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    answered = sorted(block.tool_use_id for block in results)
    is_first = all(isinstance(block, ToolResultBlock) for block in first)
    return is_first and answered == sorted(call.id for call in calls)


def _renamed(message: Message, names: Sequence[str]) -> Message:
    if names == [call.id for call in message.tool_calls]:
        return message
    left = iter(names)
    content: list[Block] = [
        block.model_copy(update={"id": next(left)}) if isinstance(block, ToolUseBlock) else block
        for block in message.content
    ]
    return message.model_copy(update={"content": content})


def _without_results(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        kept = [block for block in message.content if not isinstance(block, ToolResultBlock)]
        if len(kept) == len(message.content):
            yield message
        elif kept:
            role = "user" if message.role == "tool" else message.role
            yield message.model_copy(update={"content": kept, "role": role})


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


__all__ = ["UNAVAILABLE", "Issue", "inspect", "repair", "validate"]
