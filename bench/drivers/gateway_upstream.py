"""A provider of both protocols with fixed replies, as quick as Python allows: one process.

It prints its port. A request that has tools is answered with a call; one whose last message is a
tool's result, or that has no tools, with text. The text ends with the tag that the request has in
it, so that nobody's answer can be taken for another's. `--pause` is the time between two frames of
a stream, in seconds; without it a stream is written at once, each frame as a chunk of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from .client import run

TOOL = "lookup"
WORDS = 20
"""Deltas of text in a reply; the tag comes after them, in one more."""
LOOKING = "let me look"
"""What is said before a call."""
TAG = b"tag-00000000"
"""In whose place a reply has the tag of its request, which is as long."""
TAGGED = re.compile(rb"tag-\d{8}")
USAGE = {"input_tokens": 25, "output_tokens": 40}
CHAT_USAGE = {"prompt_tokens": 25, "completion_tokens": 40, "total_tokens": 65}
ARGUMENTS = json.dumps({"query": TAG.decode()})
CALL_ID = f"call_{TAG.decode()}"
END = b"0\r\n\r\n"

Frame = tuple[str, dict[str, Any]]


def text(tag: str) -> str:
    """Return the whole text of a reply to a request with the tag."""
    return "word " * WORDS + tag


def _deltas() -> list[str]:
    return ["word "] * WORDS + [TAG.decode()]


def message(*, calls: bool) -> dict[str, Any]:
    """Return a reply of Anthropic's Messages."""
    content: list[dict[str, Any]] = [{"type": "text", "text": "".join(_deltas())}]
    if calls:
        call = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": json.loads(ARGUMENTS)}
        content = [{"type": "text", "text": LOOKING}, call]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def completion(*, calls: bool) -> dict[str, Any]:
    """Return a reply of OpenAI's Chat Completions."""
    said: dict[str, Any] = {"role": "assistant", "content": "".join(_deltas())}
    if calls:
        said = {"role": "assistant", "content": LOOKING, "tool_calls": [_chat_call()]}
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": reason}
    told = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**told, "choices": [choice], "usage": CHAT_USAGE}


def _chat_call() -> dict[str, Any]:
    told = {"name": TOOL, "arguments": ARGUMENTS}
    return {"id": CALL_ID, "type": "function", "function": told}


def message_frames(*, calls: bool) -> Iterator[Frame]:
    """Yield the same reply of Messages as the frames of a stream."""
    whole = message(calls=calls)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    yield "message_start", {"message": begun}
    for index, block in enumerate(whole["content"]):
        yield from _block(index, block)
    told = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": told, "usage": {"output_tokens": USAGE["output_tokens"]}}
    yield "message_stop", {}


def _block(index: int, block: dict[str, Any]) -> Iterator[Frame]:
    if block["type"] == "text":
        started: dict[str, Any] = {"type": "text", "text": ""}
        pieces = [LOOKING] if block["text"] == LOOKING else _deltas()
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    else:
        started = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": ARGUMENTS}]
    yield "content_block_start", {"index": index, "content_block": started}
    for delta in deltas:
        yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


def completion_chunks(*, calls: bool) -> Iterator[dict[str, Any]]:
    """Yield the same reply of Chat Completions as the chunks of a stream."""
    whole = completion(calls=calls)
    told = {name: whole[name] for name in ("id", "created", "model")}
    told["object"] = "chat.completion.chunk"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in ([LOOKING] if calls else _deltas())]
    if calls:
        deltas.append({"tool_calls": [{"index": 0, **_chat_call()}]})
    for delta in deltas:
        yield {**told, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = whole["choices"][0]["finish_reason"]
    yield {**told, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def _sent(told: dict[str, Any] | str, name: str = "") -> bytes:
    data = told if isinstance(told, str) else json.dumps(told)
    frame = f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"
    return b"%x\r\n%b\r\n" % (len(frame.encode()), frame.encode())


@cache
def answer(*, is_chat: bool, streams: bool, calls: bool) -> tuple[bytes, ...]:
    """Return a whole answer: its head with what comes first, and each frame after it."""
    if not streams:
        told = completion(calls=calls) if is_chat else message(calls=calls)
        body = json.dumps(told).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return (b"HTTP/1.1 200 OK\r\n" + head.encode() + body,)
    if is_chat:
        frames = [_sent(chunk) for chunk in completion_chunks(calls=calls)] + [_sent("[DONE]")]
    else:
        named = message_frames(calls=calls)
        frames = [_sent({"type": name, **told}, name) for name, told in named]
    head = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    first = b"HTTP/1.1 200 OK\r\n" + head.encode() + frames[0]
    return (first, *frames[1:-1], frames[-1] + END)


@cache
def at_once(*, is_chat: bool, streams: bool, calls: bool) -> bytes:
    """Return the same in one piece."""
    return b"".join(answer(is_chat=is_chat, streams=streams, calls=calls))


def wants_call(body: dict[str, Any]) -> bool:
    """Say whether the reply to a request is a call."""
    last = body["messages"][-1]
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    is_answered = last["role"] == "tool" or any(
        block.get("type") == "tool_result" for block in blocks
    )
    return bool(body.get("tools")) and not is_answered


class Upstream(asyncio.Protocol):
    """One connection, whose requests are answered in turn."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._transport: Any = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        _, _, length = head.lower().partition(b"content-length:")
        size = int(length.partition(b"\r\n")[0] or 0)
        if len(rest) >= size:
            self._received = rest[size:]
            self._answer(head.partition(b"\r\n")[0], rest[:size])

    def _answer(self, line: bytes, body: bytes) -> None:
        asked = json.loads(body)
        tag = TAGGED.search(body)
        own = tag.group() if tag else TAG
        kind = {
            "is_chat": b"/chat/completions" in line,
            "streams": bool(asked.get("stream")),
            "calls": wants_call(asked),
        }
        if not self._pause:
            self._transport.write(at_once(**kind).replace(TAG, own))
            return
        self._write([frame.replace(TAG, own) for frame in answer(**kind)])

    def _write(self, frames: list[bytes]) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(frames[0])
        if frames[1:]:
            loop = asyncio.get_running_loop()
            loop.call_later(self._pause, self._write, frames[1:])


async def main() -> None:
    """Serve on a free port of loopback, which is printed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pause", type=float, default=0.0)
    pause = parser.parse_args().pause
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(pause), "127.0.0.1", 0, backlog=1024)
    print(f"upstream ready: {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main())
