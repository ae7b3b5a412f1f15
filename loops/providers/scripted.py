"""A model that answers by a script, for tests, demos and benchmarks.

A reply is a plain function of the history, so a loop that is resumed gets the same answer again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from loops.blocks import Raw, TextBlock, ThinkingBlock, ToolUseBlock
from loops.errors import SetupError
from loops.messages import Message, Messages, Usage
from loops.model import ModelRequest
from loops.reply import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)


@dataclass(frozen=True, slots=True)
class Said:
    """A block of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of thinking."""

    text: str
    signature: str = "signed"


@dataclass(frozen=True, slots=True)
class Called:
    """A block that calls a tool."""

    tool: str
    arguments: str
    id: str | None = None
    """None for `call_0`, `call_1`, … in the order of the reply."""


@dataclass(frozen=True, slots=True)
class Waited:
    """No block: the reply goes on when the event is set."""

    event: asyncio.Event


Piece = Said | Thought | Called | Waited | str
Answer = Piece | Sequence[Piece] | Message | BaseException
"""What a reply is: text, a piece or several, a whole message, or the error that the provider fails
with."""
Reply = Callable[[list[Raw]], Answer | Awaitable[Answer]]
"""Gets the history as plain dicts, and nothing else; gives the next reply."""


def text(said: str) -> Said:
    """Return a block of text."""
    return Said(said)


def thinking(thought: str, *, signature: str = "signed") -> Thought:
    """Return a block of thinking."""
    return Thought(thought, signature)


def call(tool: str, /, **arguments: Any) -> Called:
    """Return a block that calls the tool."""
    return Called(tool, orjson.dumps(arguments).decode())


def call_with(tool: str, arguments: str, *, call_id: str | None = None) -> Called:
    """Return a block that calls the tool with this very text, and perhaps by this id."""
    return Called(tool, arguments, call_id)


def until(event: asyncio.Event) -> Waited:
    """Let the reply wait at this place until the event is set."""
    return Waited(event)


def in_turn(*answers: Answer) -> Reply:
    """Return a reply that gives one answer after the other, by how many the history holds.

    It counts the assistant's messages, so a resumed run gets the same answers again. Past the last
    answer it fails with a text that says so.
    """

    def reply(history: list[Raw]) -> Answer:
        count = len([message for message in history if message["role"] == "assistant"])
        if count >= len(answers):
            raise SetupError(
                f"the script has {len(answers)} answers, and answer {count + 1} is asked"
            )
        return answers[count]

    return reply


def scripted(
    reply: Reply | Answer,
    *,
    pace: timedelta = timedelta(0),
    name: str = "scripted",
    delta: int = 4,
) -> "ScriptedModel":
    """Return a model that answers by the script.

    Args:
        reply: The function that answers, or the one answer to everything.
        pace: How long it thinks before each delta.
        name: The model's name.
        delta: How many characters a delta has.
    """
    script = reply if callable(reply) else _always(reply)
    return ScriptedModel(script, pace, name, delta)


def _always(answer: Answer) -> Reply:
    return lambda _: answer


class ScriptedModel:
    """A model that answers by a script; `asked` counts the requests."""

    def __init__(self, reply: Reply, pace: timedelta, name: str, delta: int) -> None:
        self.name = name
        self.asked = 0
        self._reply = reply
        self._pace = pace.total_seconds()
        self._delta = delta

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply in deltas."""
        self.asked += 1
        history = Messages(request.messages).raw
        answer = await _answered(self._reply(history))
        if isinstance(answer, BaseException):
            raise answer
        pieces = _pieces(answer)
        yield StreamStart(model=self.name)
        for event in self._blocks(pieces):
            if isinstance(event, Waited):
                await event.event.wait()
                continue
            if self._pace and isinstance(event, (TextDelta, ReasoningDelta, ToolDelta)):
                await asyncio.sleep(self._pace)
            yield event
        yield StreamEnd(stop_reason=_stop_reason(pieces), usage=_usage(history, pieces))

    def _blocks(self, pieces: Sequence[Piece]) -> Iterator[ModelEvent | Waited]:
        blocks = calls = 0
        for piece in pieces:
            if isinstance(piece, Waited):
                yield piece
                continue
            if isinstance(piece, Called):
                yield from self._call(blocks, piece, f"call_{calls}")
                calls += 1
            elif isinstance(piece, Thought):
                yield from self._thought(blocks, piece)
            else:
                yield from self._said(blocks, piece if isinstance(piece, str) else piece.text)
            blocks += 1

    def _said(self, block: int, said: str) -> Iterator[ModelEvent]:
        yield TextStart(block)
        for part in self._parts(said):
            yield TextDelta(block, part)
        yield TextEnd(block)

    def _thought(self, block: int, thought: Thought) -> Iterator[ModelEvent]:
        yield ReasoningStart(block)
        for part in self._parts(thought.text):
            yield ReasoningDelta(block, part)
        yield ReasoningEnd(block, thought.signature)

    def _call(self, block: int, called: Called, spare: str) -> Iterator[ModelEvent]:
        call_id = spare if called.id is None else called.id
        yield ToolStart(block, call_id, called.tool)
        for part in self._parts(called.arguments):
            yield ToolDelta(block, part)
        yield ToolEnd(block, call_id, called.tool, called.arguments)

    def _parts(self, whole: str) -> Iterator[str]:
        for start in range(0, len(whole), self._delta):
            yield whole[start : start + self._delta]


async def _answered(answer: Answer | Awaitable[Answer]) -> Answer:
    return await answer if isinstance(answer, Awaitable) else answer


def _pieces(answer: Piece | Sequence[Piece] | Message) -> list[Piece]:
    if isinstance(answer, str):
        return [Said(answer)]
    if isinstance(answer, Said | Thought | Called | Waited):
        return [answer]
    if isinstance(answer, Message):
        return [_piece(block) for block in answer.content]
    return list(answer)


def _piece(block: object) -> Piece:
    match block:
        case TextBlock():
            return Said(block.text)
        case ThinkingBlock():
            return Thought(block.thinking, block.signature)
        case ToolUseBlock():
            return Called(block.name, orjson.dumps(block.input).decode(), block.id)
        case _:
            raise SetupError(f"a scripted reply has text, thinking and calls; not {block!r}")


def _stop_reason(pieces: Sequence[Piece]) -> str:
    return "tool_use" if any(isinstance(piece, Called) for piece in pieces) else "end_turn"


def _usage(history: list[Raw], pieces: Sequence[Piece]) -> Usage:
    written = sum(len(_written(piece)) for piece in pieces)
    read = len(orjson.dumps(history))
    return Usage(input_tokens=-(-read // 4), output_tokens=-(-written // 4))


def _written(piece: Piece) -> str:
    match piece:
        case str():
            return piece
        case Called():
            return piece.tool + piece.arguments
        case Waited():
            return ""
        case _:
            return piece.text
