"""A provider that streams the same reply to whoever asks, as fast as it is read.

In an address with `/alone/` each event is a piece of the body for itself.
"""

from __future__ import annotations

import asyncio
import json

DELTAS = 5000
PIECE = 16_384
"""Bytes that are written at once."""


def _event(kind: str, told: dict[str, object]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **told})}\n\n".encode()


def messages() -> bytes:
    """Return a reply of Anthropic's Messages."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    delta = {"type": "text_delta", "text": "word "}
    return b"".join(
        [
            _event("message_start", {"message": message}),
            _event(
                "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
            ),
            _event("content_block_delta", {"index": 0, "delta": delta}) * DELTAS,
            _event("content_block_stop", {"index": 0}),
            _event("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": usage}),
            _event("message_stop", {}),
        ]
    )


def completions() -> bytes:
    """Return a reply of OpenAI's Chat Completions."""

    def chunk(delta: dict[str, str], reason: str | None) -> bytes:
        told = {
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }  # fmt: skip
        return f"data: {json.dumps(told)}\n\n".encode()

    words = chunk({"content": "word "}, None) * DELTAS
    return chunk({"role": "assistant"}, None) + words + chunk({}, "stop") + b"data: [DONE]\n\n"


def pieces(body: bytes, *, alone: bool) -> list[bytes]:
    """Return the body as it is written: in large pieces, or event by event."""
    if alone:
        return [event + b"\n\n" for event in body.split(b"\n\n") if event]
    return [body[start : start + PIECE] for start in range(0, len(body), PIECE)]


ANSWERS = {
    (kind, alone): pieces(body, alone=alone)
    for kind, body in {"messages": messages(), "completions": completions()}.items()
    for alone in (True, False)
}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request of a connection with the reply of its path."""
    while not reader.at_eof():
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:
            break
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        await reader.readexactly(length)
        path = head.partition("\r\n")[0]
        kind = "messages" if "/messages" in path else "completions"
        headers = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode())
        for piece in ANSWERS[kind, "/alone/" in path]:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    writer.close()


async def main() -> None:
    """Serve on a free port of loopback, which is printed."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
