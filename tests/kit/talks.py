"""Conversations drawn at random: a model that answers by a script, and a store that is watched.

Every piece of text carries a token of its own, `<17>`, so that what was said can be told apart and
counted wherever it ends up.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from loops.blocks import Raw
from loops.errors import ContextTooLong, Overloaded, Unauthorized
from loops.history import inspect
from loops.kit.plain import said
from loops.kit.stores import SessionStore, Window
from loops.kit.summing import ASK
from loops.kit.turn import Turn
from loops.messages import Messages
from loops.model import ModelRequest
from loops.providers import anthropic_request, openai_request
from loops.providers.vendors import Dialect
from tests.kit.histories import call

FILLING = " alpha beta" * 60
"""About 160 tokens."""

_TOKEN = re.compile(r"<\d+>")
SOON = timedelta(microseconds=1)


def tokens_in(value: object) -> list[str]:
    """Return the tokens of a text, a message, or several, in order."""
    return _TOKEN.findall(json.dumps(value, ensure_ascii=False))


def texts_of(messages: Sequence[Raw], *roles: str) -> list[str]:
    """Return the tokens in the texts, not the results, of all messages of the roles."""
    return [token for each in messages if each["role"] in roles for token in _said(each["content"])]


def _said(content: Any) -> list[str]:
    if isinstance(content, str):
        return tokens_in(content)
    return tokens_in([block["text"] for block in content if block["type"] == "text"])


def check_request(messages: Sequence[Raw]) -> None:
    """Pass if both wires take the history: the pairing law, and whose turn it is."""
    assert inspect(said(messages)) == []
    request = ModelRequest(model="m", messages=tuple(Messages(said(messages))))
    _check_anthropic(anthropic_request.to_wire(request)["messages"])
    _check_openai(openai_request.to_wire(request, Dialect())["messages"])


def _check_anthropic(told: list[Raw]) -> None:
    assert all(each["role"] == ("user", "assistant")[at % 2] for at, each in enumerate(told))
    for reply, answer in zip(told[1::2], [*told[2::2], {"content": []}], strict=False):
        calls = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
        first = answer["content"][: len(calls)]
        assert sorted(calls) == sorted(block["tool_use_id"] for block in first)
        rest = answer["content"][len(calls) :]
        assert all(block["type"] != "tool_result" for block in rest)


def _check_openai(told: list[Raw]) -> None:
    open_calls: set[str] = set()
    assert told[0]["role"] == "user"
    for message in told:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "something stands before the results of calls"
        open_calls = {each["id"] for each in message.get("tool_calls", [])}
    assert not open_calls


class Watched:
    """A store that notes what it has acknowledged, by places."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.acknowledged: dict[int, Raw] = {}

    async def load(self, session_id: str) -> Window:
        window = await self.store.load(session_id)
        # What a cancelled append has written all the same stands there, though nobody was told.
        for entry in window.entries:
            self.acknowledged.setdefault(entry.index, entry.message)
        return window

    async def append(self, session_id: str, index: int, messages: Sequence[Raw]) -> None:
        given = json.loads(json.dumps(list(messages)))
        await self.store.append(session_id, index, messages)
        for place, message in enumerate(given, index):
            assert self.acknowledged.setdefault(place, message) == message

    async def mark(self, session_id: str, marker: Raw) -> None:
        await self.store.mark(session_id, marker)

    async def delete(self, session_id: str) -> None:
        await self.store.delete(session_id)

    async def whole(self, session_id: str) -> list[Raw]:
        """Return all messages of the session; afterwards its window is all of them."""
        await self.store.mark(session_id, {"first_kept": 0})
        return [entry.message for entry in (await self.store.load(session_id)).entries]


KINDS = ("says", "calls", "cut", "cut call", "pauses", "refuses", "busy", "breaks", "fails", "full")
"""What a model may do: say `busy` at once, break off after some text, fail for good, have no room
left, …"""

SCRIPTS = st.lists(st.sampled_from(KINDS) | st.just("calls") | st.just("too long"), max_size=6)
SUMMARIES = st.lists(st.sampled_from(["good", "empty", "fails"]), max_size=3)


@dataclass
class Model:
    """Follows the script, and then says one last thing to each request."""

    look: Callable[[Sequence[Raw]], None] = check_request
    """Is shown the messages of each request but those for summaries."""
    script: Iterator[str] = field(default_factory=lambda: iter(()))
    summaries: Iterator[str] = field(default_factory=lambda: iter(()))
    model: str = "drawn"
    count: int = 0
    given: list[str] = field(default_factory=list[str])
    """The tokens of whole replies."""
    voided: list[str] = field(default_factory=list[str])
    """The tokens of what it took back, by breaking off or by having no room."""
    asked: list[list[Raw]] = field(default_factory=list[list[Raw]])
    """The messages of all requests but those for summaries."""

    async def stream(self, *, messages: Sequence[Raw], **_: Any) -> AsyncIterator[Any]:
        """Yield a reply."""
        await asyncio.sleep(0)
        check_request(messages)
        if ASK[:40] in str(messages[-1]["content"]):
            yield self._summary()
            return
        self.look(messages)
        self.asked.append(list(messages))
        kind = next(self.script, "says")
        if kind in {"busy", "too long"}:
            raise _failure(kind)
        pieces = [self._piece(), self._piece()]
        for piece in pieces[: 1 if kind in _BROKEN else 2]:
            yield piece
            await asyncio.sleep(0)
        if kind in _BROKEN:
            self.voided += tokens_in(pieces[0]) if kind == "breaks" else []
            raise _failure(kind)
        (self.voided if kind == "full" else self.given).extend(tokens_in(pieces))
        yield self._turn(kind, "".join(pieces))

    async def complete(self, **_: Any) -> str:
        """Return nothing: nobody asks."""
        return ""

    def _piece(self) -> str:
        self.count += 1
        return f"<{self.count}>{FILLING} "

    def _summary(self) -> Turn:
        kind = next(self.summaries, "good")
        if kind == "fails":
            raise Unauthorized("no summary for you")
        text = "<summary>They talked.</summary>" if kind == "good" else ""
        return Turn([{"type": "text", "text": text}], "end_turn", input=10, output=5)

    def _turn(self, kind: str, text: str) -> Turn:
        content: list[Raw] = [{"type": "text", "text": text}]
        if "call" in kind:
            names = [f"call{self.count}.{each}" for each in range(1 + self.count % 3)]
            content += [call(name, "look", at=name) for name in names]
        return Turn(content, _REASONS.get(kind, "end_turn"), output=0 if kind == "full" else 330)


_BROKEN = frozenset({"breaks", "fails"})
_REASONS = {
    "calls": "tool_use",
    "cut": "max_tokens",
    "cut call": "max_tokens",
    "pauses": "pause_turn",
    "refuses": "refusal",
    "full": "model_context_window_exceeded",
}


def _failure(kind: str) -> Exception:
    if kind == "too long":
        return ContextTooLong("too long", limit=1_500)
    if kind == "fails":
        return Unauthorized("who are you?")
    return Overloaded("too many ask", retry_after=SOON)


def counted(messages: Sequence[Raw], role: str) -> Counter[str]:
    """Return how often each token stands in the texts of the role."""
    return Counter(texts_of(messages, role))
