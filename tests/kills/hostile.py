"""A provider that fails as real ones do, and in between says what comes next in the conversation.

Each conversation that it is shown gets the failures of its place before the good reply: turned away
(429), cut in a text, failed after the status, overloaded (529), cut in a call. What it says is what
the scripted model of these tests says, in the protocol in which it is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from loops.providers.scripted import Called, Piece, Said
from tests.kills.scripts import reply
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.service import Answer, Asked, Service

PACE = 0.004
JSON = "application/json"

FAILURES = (("limited", "cut in a text"), ("limited", "failed", "busy"), ("cut in a call", "busy"))
"""What a conversation meets first, by how many results it holds; no turn fails three times."""


@dataclass
class HostileProvider(Service):
    """Speaks Anthropic's Messages and Chat Completions."""

    counts: Counter[bytes] = field(default_factory=Counter[bytes])
    failed: Counter[str] = field(default_factory=Counter[str])
    """How often it has failed, by kind."""

    def answer_to(self, asked: Asked) -> Answer:
        """Fail as is this conversation's lot, then answer."""
        wire = Anthropic() if asked.path.endswith("/messages") else OpenAI()
        messages: list[dict[str, Any]] = asked.body["messages"]
        shown = orjson.dumps(messages)
        before = self.counts[shown]
        self.counts[shown] += 1
        results = str(messages).count("tool_result") + str(messages).count("tool_call_id")
        lot = FAILURES[min(results // 3, len(FAILURES) - 1)]
        chunks = [*wire.reply(reply(wire.history(messages)))]
        if before >= len(lot):
            return Answer(chunks, pause=PACE)
        return self._failure(lot[before], chunks, wire)

    def _failure(self, kind: str, chunks: list[bytes], wire: Anthropic | OpenAI) -> Answer:
        self.failed[kind] += 1
        match kind:
            case "limited":
                body, headers = wire.refusal("rate_limit_error"), {"retry-after-ms": "20"}
                return Answer([body], status=429, kind=JSON, headers=headers)
            case "busy":
                return Answer([wire.refusal("overloaded_error")], status=529, kind=JSON)
            case "failed":
                return Answer([*chunks[:4], wire.failed()], pause=PACE)
            case "cut in a call":
                ends = [n for n, chunk in enumerate(chunks) if wire.IN_CALL in chunk]
                return Answer(chunks[: ends[0] + 1 if ends else 2], pause=PACE, breaks_off=True)
            case _:
                return Answer(chunks[:4], pause=PACE, breaks_off=True)


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


class Anthropic:
    """Messages."""

    IN_CALL = b"partial_json"

    def history(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return messages

    def reply(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        yield a.started()
        calls = 0
        for index, piece in enumerate(pieces):
            match piece:
                case Said():
                    whole = a.said(index, *_pieces(piece.text))
                case Called():
                    written = _pieces(piece.arguments)
                    whole = a.called(index, piece.tool, *written, call_id=f"call_{calls}")
                    calls += 1
                case _:
                    raise TypeError(f"the tests' model says no {piece!r}")
            yield from _frames(whole)
        yield a.ended("tool_use" if calls else "end_turn")

    def refusal(self, kind: str) -> bytes:
        return orjson.dumps({"type": "error", "error": {"type": kind, "message": "no"}})

    def failed(self) -> bytes:
        return a.failed("api_error")


class OpenAI:
    """Chat Completions; its calls are numbered wrong, as some servers do."""

    IN_CALL = b'"arguments"'

    def history(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self._told(message) for message in messages]

    def _told(self, message: Mapping[str, Any]) -> dict[str, Any]:
        functions = [call["function"] for call in message.get("tool_calls") or ()]
        blocks = [
            {"type": "tool_use", "name": each["name"], "input": orjson.loads(each["arguments"])}
            for each in functions
        ]
        return {"role": message["role"], "content": blocks}

    def reply(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        yield o.chunk({"role": "assistant", "content": ""})
        calls = 0
        for piece in pieces:
            match piece:
                case Said():
                    yield from _frames(o.said(*_pieces(piece.text)))
                case Called():
                    first, *rest = _pieces(piece.arguments)
                    yield o.calls(o.call(0, f"call_{calls}", piece.tool, first))
                    for each in rest:
                        yield o.calls(o.call(0, None, None, each))
                    calls += 1
                case _:
                    raise TypeError(f"the tests' model says no {piece!r}")
        yield o.chunk(reason="stop") + o.usage() + o.DONE

    def refusal(self, kind: str) -> bytes:
        return orjson.dumps({"error": {"type": kind, "message": "no"}})

    def failed(self) -> bytes:
        return o.data({"error": {"type": "server_error", "message": "no"}})


def _frames(data: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
