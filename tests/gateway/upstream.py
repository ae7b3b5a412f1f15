"""A provider on loopback that plays one script in both protocols: real HTTP, real frames.

    async with upstream(in_turn(says(calls=[call("search", q="x")]), says("found"))) as up:
        AnthropicModel("m", base_url=up.url, api_key="k")
        OpenAIModel("m", base_url=up.openai_url, api_key="k")
        assert up.requests[0].body["messages"] == ...

A script is a function of one request (`Asked`: path, headers in lower case, body), plain or
asynchronous, that gives what is answered:

* `says(text, thinking=, calls=, ...)`, a reply by its meaning. It is told in the protocol of the
  path that was asked, as a stream or whole as the body's `stream` says. Ids that it does not name
  are made of the number of the request, so they differ from round to round.
* `fails(status, kind, text, retry_after=)`, a refusal in the protocol's words.
* an `Answer` of `tests.loops.providers.service`: any bytes, any status.

A reply in place of a script is given again and again. `in_turn(...)` counts the assistant's
messages of the request, so it has no state. How a reply is delivered are its own fields:
`by_byte`, `cut_after` (frames, then the connection breaks), `ends_after` (frames, then the answer
ends as if it were whole), `error_after` (frames, then an error event), `gates` (an event that is
waited for before the frame of that number). Whoever leaves at a gate is counted in `up.left`.

`message(reply)` and `completion(reply)` are the whole bodies of the same reply, `message_rows` and
`completion_rows` its frames.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from inspect import isawaitable
from typing import Any

import orjson

from loops.testing import wait_until
from tests.loops.providers.service import Answer, Asked, Service, _answer, _request, served

Row = tuple[str, str]
"""The name of a frame's event, and its data."""


@dataclass(frozen=True)
class Called:
    """A call in a reply."""

    name: str
    input: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """A reply by its meaning, and how it is delivered."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[Called] = ()
    stop_reason: str = ""
    """In Anthropic's words; empty for what the calls say."""
    usage: tuple[int, int] = (10, 5)
    model: str = "m-1"
    number: int = 1
    """What ids are made of; the server puts the number of the request here."""
    piece: int = 5
    """How many characters a delta has."""
    by_byte: bool = False
    cut_after: int | None = None
    ends_after: int | None = None
    error_after: int | None = None
    gates: Mapping[int, asyncio.Event] = field(default_factory=dict[int, asyncio.Event])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def reason(self) -> str:
        """Why it ends, in Anthropic's words."""
        return self.stop_reason or ("tool_use" if self.calls else "end_turn")

    def id_of(self, place: int) -> str:
        """Return the id of the call at the place."""
        return self.calls[place].id or f"toolu_{self.number}_{place}"


@dataclass(frozen=True)
class Failing:
    """A refusal, to be told in either protocol."""

    status: int
    kind: str
    text: str
    retry_after: str = ""


Told = Reply | Failing | Answer
Script = Callable[[Asked], Told | Awaitable[Told]]


def call(name: str, /, *, call_id: str = "", **arguments: Any) -> Called:
    """Return a call of the tool."""
    return Called(name, arguments, call_id)


def says(text: str = "", *, calls: Sequence[Called] = (), **fields: Any) -> Reply:
    """Return a reply; `fields` are those of `Reply`."""
    return Reply(text, calls=tuple(calls), **fields)


def fails(status: int, kind: str = "api_error", text: str = "no", retry_after: str = "") -> Failing:
    """Return a refusal."""
    return Failing(status, kind, text, retry_after)


def in_turn(*answers: Told) -> Script:
    """Return a script that gives one answer after the other, by what the request holds."""

    def script(asked: Asked) -> Told:
        said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
        return answers[min(len(said), len(answers) - 1)]

    return script


# -- Messages


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "signed"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for place, each in enumerate(reply.calls):
        told = {"id": reply.id_of(place), "name": each.name, "input": dict(each.input)}
        blocks.append({"type": "tool_use", **told})
    return blocks


def message(reply: Reply) -> dict[str, Any]:
    """Return the reply as a body of Messages."""
    usage = {"input_tokens": reply.usage[0], "output_tokens": reply.usage[1]}
    head = {"id": f"msg_{reply.number}", "type": "message", "role": "assistant"}
    end = {"stop_reason": reply.reason, "stop_sequence": None, "usage": usage}
    return {**head, "model": reply.model, "content": _blocks(reply), **end}


def message_rows(reply: Reply) -> list[Row]:
    """Return the reply as frames of Messages, with a ping and a field that nobody knows."""
    begun = message(reply) | {"content": [], "stop_reason": None}
    begun["usage"] = {"input_tokens": reply.usage[0], "output_tokens": 1}
    rows = [_row("message_start", message=begun, novel={"a": 1}), _row("ping")]
    for index, block in enumerate(_blocks(reply)):
        rows += _block_rows(index, block, reply.piece)
    delta = {"stop_reason": reply.reason, "stop_sequence": None}
    rows.append(_row("message_delta", delta=delta, usage={"output_tokens": reply.usage[1]}))
    return [*rows, _row("message_stop")]


def _block_rows(index: int, block: dict[str, Any], piece: int) -> list[Row]:
    match block["type"]:
        case "text":
            empty = {"text": ""}
            deltas = [{"type": "text_delta", "text": each} for each in _cut(block["text"], piece)]
        case "thinking":
            empty = {"thinking": "", "signature": ""}
            pieces = _cut(block["thinking"], piece)
            deltas = [{"type": "thinking_delta", "thinking": each} for each in pieces]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            empty = {"input": {}}
            pieces = _cut(orjson.dumps(block["input"]).decode(), piece)
            deltas = [{"type": "input_json_delta", "partial_json": each} for each in pieces]
    return [
        _row("content_block_start", index=index, content_block=block | empty),
        *(_row("content_block_delta", index=index, delta=delta) for delta in deltas),
        _row("content_block_stop", index=index),
    ]


def _row(kind: str, **told: Any) -> Row:
    return kind, orjson.dumps({"type": kind, **told}).decode()


def _cut(text: str, piece: int) -> list[str]:
    return [text[at : at + piece] for at in range(0, len(text), piece)]


# -- Chat Completions

REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
"""Why a reply ends, in the words of Chat Completions."""


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": reply.id_of(place),
            "type": "function",
            "function": {"name": each.name, "arguments": orjson.dumps(each.input).decode()},
        }
        for place, each in enumerate(reply.calls)
    ]


def completion(reply: Reply) -> dict[str, Any]:
    """Return the reply as a body of Chat Completions."""
    said: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        said["reasoning_content"] = reply.thinking
    if reply.calls:
        said["tool_calls"] = _calls(reply)
    reason = REASONS.get(reply.reason, reply.reason)
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": reason}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def completion_rows(reply: Reply, *, tells_usage: bool = True) -> list[Row]:
    """Return the reply as frames of Chat Completions."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"reasoning_content": each} for each in _cut(reply.thinking, reply.piece)]
    deltas += [{"content": each} for each in _cut(reply.text, reply.piece)]
    for place, each in enumerate(_calls(reply)):
        written = each["function"]["arguments"]
        begun = each | {"function": each["function"] | {"arguments": ""}}
        deltas.append({"tool_calls": [{"index": place, **begun}]})
        for part in _cut(written, reply.piece):
            deltas.append({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    rows = [_chunk(reply, [{"index": 0, "delta": each, "finish_reason": None}]) for each in deltas]
    reason = REASONS.get(reply.reason, reply.reason)
    rows.append(_chunk(reply, [{"index": 0, "delta": {}, "finish_reason": reason}]))
    if tells_usage:
        rows.append(_chunk(reply, [], usage=_usage(reply)))
    return [*rows, ("", "[DONE]")]


def _chunk(reply: Reply, choices: list[dict[str, Any]], **more: Any) -> Row:
    told = {**_head(reply, "chat.completion.chunk"), "choices": choices, **more}
    return "", orjson.dumps(told).decode()


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    told = {"id": f"chatcmpl-{reply.number}", "object": kind, "created": 1_700_000_000}
    return {**told, "model": reply.model, "system_fingerprint": "fp_novel"}


def _usage(reply: Reply) -> dict[str, Any]:
    asked, written = reply.usage
    counts = {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}
    return {**counts, "prompt_tokens_details": {"cached_tokens": 0}}


# -- the server


@dataclass
class Upstream(Service):
    """The provider, and what it was asked."""

    answers: list[Answer] = field(default_factory=list[Answer])
    left: int = 0
    """How many connections were closed from the other side while a reply waited at a gate."""
    script: Script = lambda _: Failing(500, "api_error", "there is no script")

    @property
    def requests(self) -> list[Asked]:
        """What came, in its order."""
        return self.asked

    @property
    def openai_url(self) -> str:
        """The address as OpenAI's protocol wants it."""
        return f"{self.url}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._serve_one(reader, writer):
                continue
        writer.close()
        del self._open[task]

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and say whether the connection lives on."""
        asked = await _request(reader)
        self.asked.append(asked)
        number = len(self.asked)
        told = self.script(asked)
        if isawaitable(told):
            told = await told
        if isinstance(told, Reply):
            return await self._play(reader, writer, asked, replace(told, number=number))
        answer = _refusal(asked, told) if isinstance(told, Failing) else told
        await _answer(writer, answer)
        if answer.hangs:
            await self.over.wait()
        return not (answer.breaks_off or answer.hangs)

    async def _play(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: Asked,
        reply: Reply,
    ) -> bool:
        if asked.path.endswith("/count_tokens"):
            await _answer(writer, _json({"input_tokens": reply.usage[0]}))
            return True
        is_chat = asked.path.endswith("/chat/completions")
        if asked.body.get("stream") is not True:
            whole = completion(reply) if is_chat else message(reply)
            await _answer(writer, _json(whole, headers=dict(reply.headers)))
            return True
        options = asked.body.get("stream_options") or {}
        tells_usage = bool(options.get("include_usage"))
        rows = completion_rows(reply, tells_usage=tells_usage) if is_chat else message_rows(reply)
        ends = (reply.cut_after, reply.ends_after, reply.error_after)
        rows = rows[: min((end for end in ends if end is not None), default=len(rows))]
        if reply.error_after is not None:
            rows.append(_error_row(is_chat=is_chat))
        await self._stream(reader, writer, reply, rows)
        return reply.cut_after is None

    async def _stream(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reply: Reply,
        rows: Sequence[Row],
    ) -> None:
        # The head alone, so that each frame can be waited for.
        await _answer(writer, Answer([], hangs=True, headers=dict(reply.headers)))
        for number, row in enumerate(rows):
            if number in reply.gates:
                await self._wait(reply.gates[number], reader)
            frame = frame_of(row)
            for part in _bytes(frame) if reply.by_byte else [frame]:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        if reply.cut_after is None:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def _wait(self, gate: asyncio.Event, reader: asyncio.StreamReader) -> None:
        """Wait at the gate, as long as there is somebody who reads."""
        await wait_until(
            lambda: gate.is_set() or self.over.is_set() or reader.at_eof(),
            within=timedelta(minutes=1),
            for_="the gate",
        )
        if not gate.is_set():
            self.left += reader.at_eof()
            raise ConnectionError("nobody reads any more")


def frame_of(row: Row) -> bytes:
    """Return the row as the bytes of one frame."""
    name, text = row
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def _bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def _error_row(*, is_chat: bool) -> Row:
    if is_chat:
        error = {"message": "busy", "type": "server_error", "param": None, "code": "novel_code"}
        return "", orjson.dumps({"error": error}).decode()
    return _row("error", error={"type": "overloaded_error", "message": "busy"})


def _refusal(asked: Asked, told: Failing) -> Answer:
    error = {"type": told.kind, "message": told.text}
    is_chat = asked.path.endswith("/chat/completions")
    body = {"error": error | {"param": None, "code": None}}
    whole = body if is_chat else {"type": "error", "error": error, "request_id": "req_novel"}
    headers = {"retry-after": told.retry_after} if told.retry_after else {}
    return _json(whole, status=told.status, headers=headers)


def _json(told: Mapping[str, Any], **fields: Any) -> Answer:
    return Answer([orjson.dumps(told)], kind="application/json", **fields)


@asynccontextmanager
async def upstream(script: Script | Told) -> AsyncGenerator[Upstream]:
    """Play the script on a port of its own while the block runs."""
    play = script if callable(script) else lambda _: script
    async with served(Upstream(script=play)) as service:
        yield service
