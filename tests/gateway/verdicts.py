"""What came of a streamed answer, frame by frame: all of it, an error in its protocol, or neither.

An answer is whole when it has each word once and ends as its protocol says. Nothing that a caller
could take for an answer and that is not one passes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.callers import Answer, Request
from bench.drivers.gateway_upstream import LOOKING, text
from bench.gateway_requests import CHAT

WHOLE = "whole"
WRONG = "wrong: "


class WrongAnswerError(ValueError):
    """An answer is neither whole nor an error; the text says what is the matter."""


@dataclass(slots=True)
class Said:
    """One message of an answer."""

    text: str = ""
    reason: str | None = None
    blocks: list[str] = field(default_factory=list[str])
    is_over: bool = False


def unchunked(body: bytes) -> bytes:
    """Return a body without the sizes of its chunks."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole += rest[:length]
        body = rest[length + 2 :]
        if not length:
            break
    return whole


def events(stream: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name and the data of each event; comments are passed over."""
    for frame in stream.decode().split("\n\n"):
        fields = dict(
            line.partition(": ")[::2] for line in frame.splitlines() if not line.startswith(":")
        )
        if fields:
            yield fields.get("event", ""), fields.get("data", "")


def refusal(status: int, body: bytes) -> str:
    """Return what an answer says that is not one, as both protocols say it.

    Raises:
        WrongAnswerError: When it says nothing.
    """
    try:
        return f"status {status}: {_named(json.loads(body))}"
    except (ValueError, KeyError, TypeError) as error:
        raise WrongAnswerError(f"status {status} and no error: {body[:200]!r}") from error


def _named(told: dict[str, Any]) -> str:
    return f"{told['error']['type']} ({told['error']['message']})"


def of_messages(stream: bytes, texts: list[str]) -> str:
    """Return `whole` when the messages have these texts, or what the error at the end is called.

    Raises:
        WrongAnswerError: When it is neither.
    """
    said: list[Said] = []
    for name, data in events(stream):
        told = json.loads(data)
        if name == "error":
            return f"error: {_named(told)}"
        _take_event(said, name, told)
    if [each.text for each in said] != texts:
        raise WrongAnswerError(f"it says {[each.text for each in said]}, and not {texts}")
    if not said[-1].is_over or said[-1].reason != "end_turn":
        raise WrongAnswerError(f"it ends with {said[-1]}")
    return WHOLE


def _take_event(said: list[Said], name: str, told: dict[str, Any]) -> None:
    is_open = bool(said) and not said[-1].is_over
    if name == "ping":
        return
    if name != told["type"] or (name == "message_start") == is_open:
        raise WrongAnswerError(f"{name} ({told['type']}) stands where it cannot stand")
    if name == "message_start":
        said.append(Said())
    elif name == "content_block_start":
        said[-1].blocks.append(told["content_block"]["type"])
    elif name == "content_block_delta":
        _take_delta(said[-1], told)
    elif name == "message_delta":
        said[-1].reason = told["delta"]["stop_reason"]
    elif name == "message_stop":
        said[-1].is_over = True


def _take_delta(said: Said, told: dict[str, Any]) -> None:
    if told["index"] != len(said.blocks) - 1:
        raise WrongAnswerError(
            f"a delta of block {told['index']}, where {len(said.blocks)} have begun"
        )
    said.text += told["delta"].get("text", "")


def of_chat(stream: bytes, text: str) -> str:
    """Return `whole` when the chunks have this text, or what the error at the end is called.

    Raises:
        WrongAnswerError: When it is neither.
    """
    said = Said()
    for _, data in events(stream):
        if data == "[DONE]":
            said.is_over = True
            continue
        told = json.loads(data)
        if said.is_over:
            raise WrongAnswerError("something comes after [DONE]")
        if "error" in told:
            return f"error: {_named(told)}"
        for choice in told["choices"]:
            said.text += choice["delta"].get("content") or ""
            said.reason = choice.get("finish_reason") or said.reason
    if said != Said(text, "stop", [], is_over=True):
        raise WrongAnswerError(f"it is {said}, and not {text!r}")
    return WHOLE


def judged(asked: Request, answer: Answer, tag: str) -> str:
    """Return what came of a streamed request, in a few words."""
    try:
        if answer.status != 200:
            return refusal(answer.status, answer.body)
        stream = unchunked(answer.body)
        if asked.path == CHAT:
            return of_chat(stream, text(tag))
        return of_messages(stream, [LOOKING, text(tag)] if "tools" in asked.body else [text(tag)])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{WRONG}{error!r}"
