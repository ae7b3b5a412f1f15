"""The stream of a message, folded into its plain body, and back; pure.

What is not known is kept: fields, blocks, and what deltas say of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from loops.blocks import Raw
from loops.jsonable import parse_object
from loops.providers.told import fields, word

from .growing import Pieces, grown, overlaid
from .json_rows import dumped, row_of, told_by
from .rows import BODY, Row

UNREADABLE = "_raw"
"""Where a call's input keeps arguments that are no JSON object, as they were written."""


def fold_message(rows: Sequence[Row]) -> Raw:
    """Return the plain body of the message that the rows are."""
    if rows and rows[0][0] == BODY:
        return told_by(rows[0])
    whole = MessageFold()
    for row in rows:
        whole.feed(told_by(row))
    return whole.body()


def input_of(text: str) -> Raw:
    """Return the input of a call that was written as the text; what is no object is kept so."""
    try:
        return parse_object(text)
    except ValueError:
        return {UNREADABLE: text}


def index_of(told: Raw) -> object:
    """Return the number of the block that an event is of; None where it has none."""
    index = told.get("index")
    return None if isinstance(index, list | dict) else index


class MessageFold:
    """A message that grows by the events of its stream; those that are no part of it count not."""

    def __init__(self) -> None:
        self._message: Raw = {}
        self._blocks: list[_Block] = []
        self._open: dict[object, _Block] = {}

    def feed(self, told: Raw) -> None:
        """Let the message grow by what a row tells; another message takes the place of this."""
        match told.get("type"):
            case "message_start":
                self._message = dict(fields(told.get("message")))
                self._blocks = []
            case "content_block_start":
                block = _Block(fields(told.get("content_block")))
                self._open[index_of(told)] = block
                self._blocks.append(block)
            case "content_block_delta":
                if (grows := self._open.get(index_of(told))) is not None:
                    grows.grow(fields(told.get("delta")))
            case "message_delta":
                self._change(told)
            case _:
                return

    def _change(self, told: Raw) -> None:
        others = {name: each for name, each in told.items() if name not in _OF_DELTA}
        said = overlaid(overlaid(self._message, fields(told.get("delta"))), others)
        if isinstance(usage := told.get("usage"), dict):
            said["usage"] = overlaid(fields(said.get("usage")), cast("Raw", usage))
        self._message = said

    def body(self) -> Raw:
        """Return the message so far."""
        message: Raw = {"type": "message", "role": "assistant", **self._message}
        return {**message, "content": [block.whole() for block in self._blocks]}


_OF_DELTA = frozenset({"type", "delta", "usage"})


class _Block:
    """A block that is being written."""

    def __init__(self, raw: Raw) -> None:
        self._raw = dict(raw)
        self._pieces = Pieces()

    def grow(self, delta: Raw) -> None:
        for name, more in delta.items():
            match name, more:
                case "type", _:
                    continue
                case "citation", _:
                    self._raw["citations"] = grown(self._raw.get("citations"), [more])
                case "signature", str():
                    self._raw["signature"] = more
                case _, str():
                    self._pieces.add(name, more)
                case _:
                    self._raw[name] = grown(self._raw.get(name), more)

    def whole(self) -> Raw:
        told = {**self._raw, **self._pieces.joined(self._raw)}
        arguments = told.pop("partial_json", "")
        if arguments.strip():
            told["input"] = input_of(arguments)
        return told


def rows_of_message(body: Raw) -> list[Row]:
    """Return the rows of a stream that tells the body: each block by one delta of a kind.

    A body without usage is told with zeros, which clients of the stream need.
    """
    told = {"type": "message", "role": "assistant", **body}
    usage = {"input_tokens": 0, "output_tokens": 0, **fields(body.get("usage"))}
    last = {"stop_reason": None, "stop_sequence": None}
    last |= {name: body[name] for name in _LAST if name in body}
    blank: Raw = {**dict.fromkeys(last), "content": []}
    start = {**told, **blank, "usage": {**usage, "output_tokens": 0}}
    return [
        row_of("message_start", {"type": "message_start", "message": start}),
        *_rows_of_blocks(_blocks_of(body.get("content"))),
        row_of("message_delta", {"type": "message_delta", "delta": last, "usage": usage}),
        row_of("message_stop", {"type": "message_stop"}),
    ]


_LAST = ("stop_reason", "stop_sequence", "stop_details")
"""What of a message is known when it ends."""


def _blocks_of(content: object) -> list[Raw]:
    """Return the content as blocks, each in its place; what is no block is text."""
    listed = cast("list[object]", content) if isinstance(content, list) else [content]
    told = [*listed] if content else []
    return [fields(each) or {"type": "text", "text": word(each)} for each in told]


def _rows_of_blocks(blocks: Iterable[Raw]) -> list[Row]:
    return [
        row_of(frame["type"], {**frame, "index": index})
        for index, block in enumerate(blocks)
        for frame in frames_of(block)
    ]


def frames_of(block: Raw) -> Iterator[Raw]:
    """Yield what tells the block, as if it were the first."""
    start, deltas = _parted(block)
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    for kind, name, value in deltas:
        delta = {"type": kind, name: value}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}


Delta = tuple[str, str, Any]
"""The type of a delta, the name of what it brings, and that."""


def _parted(block: Raw) -> tuple[Raw, list[Delta]]:
    """Return what a block is started with, and the deltas by which it grows to be whole."""
    kind = word(block.get("type"))
    if kind == "text" and isinstance(block.get("text"), str):
        cited: object = block.get("citations")
        citations = cast("list[object]", cited) if isinstance(cited, list) else []
        start: Raw = {**block, "text": ""}
        if citations:
            start["citations"] = []
        said: list[Delta] = [("text_delta", "text", block["text"])] if block["text"] else []
        return start, said + [("citations_delta", "citation", each) for each in citations]
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        names = [name for name in ("thinking", "signature") if word(block.get(name))]
        thought: list[Delta] = [(f"{name}_delta", name, block[name]) for name in names]
        return {**block, **dict.fromkeys(names, ""), "thinking": ""}, thought
    if kind.endswith("tool_use") and isinstance(block.get("input"), dict):
        return {**block, "input": {}}, [
            ("input_json_delta", "partial_json", dumped(block["input"]))
        ]
    return block, []
