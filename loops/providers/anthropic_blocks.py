"""The blocks of Anthropic's replies: the events that tell them, and what goes back; pure.

Blocks that we do not know are kept word for word, and grow as their deltas say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from loops.blocks import Raw
from loops.reply import (
    BuiltinToolDelta,
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)

from .told import fields, word

_TEXTS = frozenset({"text", "thinking"})

_KNOWN = _TEXTS | {"redacted_thinking"}


Usual = tuple[str, str, Callable[[int, str], ModelEvent]]
"""The type of a delta, the name of the text in it, and the event by which it is told."""

_USUAL: dict[str, Usual] = {
    "text": ("text_delta", "text", TextDelta),
    "thinking": ("thinking_delta", "thinking", ReasoningDelta),
    "tool_use": ("input_json_delta", "partial_json", ToolDelta),
}

_UNUSUAL: Usual = ("", "", TextDelta)


@dataclass(slots=True)
class OpenBlock:
    """A block that is being written."""

    number: int
    kind: str
    raw: Raw
    pieces: list[str] = field(default_factory=list[str])
    usual: Usual = field(init=False)
    """How nearly all deltas of the block look."""

    def __post_init__(self) -> None:
        self.usual = _USUAL.get(self.kind, _UNUSUAL)

    @property
    def text(self) -> str:
        """What has grown so far."""
        return "".join(self.pieces)

    @property
    def is_call(self) -> bool:
        """Whether the block is a call, of whatever family."""
        return self.kind.endswith("tool_use")

    @property
    def is_builtin(self) -> bool:
        """Whether the block is a call that the service performs itself, whatever its family."""
        return self.is_call and self.kind != "tool_use"

    @property
    def is_known(self) -> bool:
        """Whether we know how the block grows; any other is kept as it comes."""
        return self.is_call or self.kind in _KNOWN


def begun(block: OpenBlock) -> ModelEvent | None:
    """Return the event with which the block begins; None for one that is told when it is whole."""
    number, raw = block.number, block.raw
    match block.kind:
        case "text":
            return TextStart(number)
        case "thinking":
            return ReasoningStart(number)
        case "redacted_thinking":
            return ReasoningStart(number, redacted=word(raw.get("data")))
        case "tool_use":
            return ToolStart(number, word(raw.get("id")), word(raw.get("name")))
        case _ if block.is_builtin:
            return BuiltinToolStart(number, word(raw.get("id")), word(raw.get("name")))
        case _:
            return None


def ended(block: OpenBlock) -> ModelEvent:
    """Return the event with which the block ends."""
    number, raw, extra = block.number, block.raw, _extra(block)
    call = (number, word(raw.get("id")), word(raw.get("name")))
    match block.kind:
        case "text":
            return TextEnd(number, citations=_citations(raw.get("citations")), extra=extra)
        case "thinking" | "redacted_thinking":
            signature = word(raw.get("signature")) or None
            return ReasoningEnd(number, signature=signature, extra=extra)
        case "tool_use":
            return ToolEnd(*call, _arguments(block), extra=extra)
        case _ if block.is_builtin:
            kept = {name: value for name, value in raw.items() if name != "input"}
            return BuiltinToolEnd(*call, _arguments(block), raw=kept)
        case kind:
            name = word(raw.get("name")) or kind.removesuffix("_tool_result")
            return BuiltinToolResult(number, word(raw.get("tool_use_id")), name, whole(block))


def whole(block: OpenBlock) -> Raw:
    """Return the block as it goes back to the service."""
    if block.kind in _TEXTS:
        return {**block.raw, block.kind: block.text}
    is_written = block.is_call or bool(block.pieces)
    return {**block.raw, "input": _input(block)} if is_written else block.raw


_OURS = frozenset({"type", "text", "thinking", "data", "id", "name", "input"})
"""What of a block the events tell by themselves, or no delta may change."""


def _extra(block: OpenBlock) -> Raw | None:
    """Return what of a block its events do not tell by themselves; None for nothing."""
    told = _OURS | {"citations", "signature", "call"}
    raw = block.raw.items()
    return {name: value for name, value in raw if name not in told and value is not None} or None


def _citations(told: object) -> list[Raw] | None:
    all_of_them = cast("list[object]", told) if isinstance(told, list) else []
    return [told for each in all_of_them if (told := fields(each))] or None


def _arguments(block: OpenBlock) -> str:
    """Return the arguments as written; a call without a delta has those that it began with."""
    if block.text:
        return block.text
    try:
        return orjson.dumps(block.raw.get("input") or {}).decode()
    except TypeError:
        # It is nested deeper than anybody reads: no call that could be carried out.
        return "{"


def _input(block: OpenBlock) -> object:
    try:
        return orjson.loads(_arguments(block))
    except orjson.JSONDecodeError:
        return {}


_DELTAS_KNOWN = {
    "text_delta": ("text", "text"),
    "citations_delta": ("citation", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
}
"""The deltas that we know: what each brings, and how the kinds of blocks end that grow by it."""

_UNKNOWN = ("", "")

_WRITTEN = _TEXTS | {"partial_json"}
"""What is text that is told as it comes."""


def text_of(block: OpenBlock, delta: Mapping[str, Any]) -> str | None:
    """Return the text by which a block that we know grows; None for a delta of another kind."""
    name, home = _DELTAS_KNOWN.get(word(delta.get("type")), _UNKNOWN)
    if name not in _WRITTEN or not block.is_known or not block.kind.endswith(home):
        return None
    text: object = delta.get(name)
    return text if isinstance(text, str) else None


def fits(block: OpenBlock, delta: Mapping[str, Any]) -> bool:
    """Whether the block may grow by the delta: of those that we know each has a kind of its own."""
    _, home = _DELTAS_KNOWN.get(word(delta.get("type")), _UNKNOWN)
    return not block.is_known or block.kind.endswith(home)


def change(block: OpenBlock, delta: Mapping[str, Any]) -> None:
    """Let a block grow by a delta that is no text."""
    name, _ = _DELTAS_KNOWN.get(word(delta.get("type")), _UNKNOWN)
    match name, delta.get(name):
        case "signature", str(signature) if block.is_known:
            block.raw["signature"] = signature
        case "citation", citation if block.is_known and name in delta:
            block.raw["citations"] = _grown(block.raw.get("citations"), [citation])
        case _:
            _merge(block, delta)


def _merge(block: OpenBlock, delta: Mapping[str, Any]) -> None:
    """Let a block grow by a delta, when we do not know the one or the other.

    A block that we know grows in fields that it began with: the service takes no others back.
    """
    takes = block.raw.keys() - _OURS if block.is_known else delta.keys() - {"type"}
    for name in delta.keys() & takes:
        match name, delta[name]:
            case "partial_json", str(text):
                block.pieces.append(text)
            case "citation", citation:
                block.raw["citations"] = _grown(block.raw.get("citations"), [citation])
            case _, value:
                block.raw[name] = _grown(block.raw.get(name), value)


def _grown(before: Any, more: Any) -> Any:
    """Return the two together: text, lists and objects grow, and nothing takes nothing away."""
    if type(before) is type(more) and type(more) in {str, list}:
        return before + more
    if type(before) is type(more) is dict:
        return before | more
    return before if more is None else more


def delta_of(block: OpenBlock) -> Callable[[int, str], ModelEvent] | None:
    """Return the event by which the block grows; None for one that is told when it is whole."""
    if block.kind in _USUAL:
        return block.usual[2]
    return BuiltinToolDelta if block.is_builtin else None
