"""Events as they are stored and sent: a type and plain data, one form for each event.

What an event need not have is left out where it is None.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from .errors import BadYield
from .events import (
    AgentEvent,
    Custom,
    Event,
    HookEvent,
    Ping,
    ReasoningDelta,
    Retry,
    TextDelta,
    Unknown,
)
from .jsonable import clean_text, jsonable, strictly_jsonable
from .messages import Usage
from .reply import Delta

_IN_MEMORY = {"exception", *(each.name for each in fields(Event))}

_CLASSES: dict[str, type[Event]] = {
    each.type: each
    for each in cast("tuple[type[Event], ...]", AgentEvent.__args__)
    if each not in {HookEvent, Custom, Unknown}
}

_HOOK_TYPES = {f"hook.{status}" for status in ("opened", "resolved", "expired", "cancelled")}

RUNTIME_TYPES: frozenset[str] = frozenset(
    {each for each in _CLASSES if each.startswith(("run.", "child."))}
    | {"turn.started", "turn.finished", "turn.reset", "step.finished"}
    | {"tool.queued", "tool.started", "tool.lost", "tool.progress"}
    | _HOOK_TYPES
)
"""The types that the runtime publishes itself; yielded by a loop, they are not published again."""


def wire_type(event: Event) -> str:
    """Return the name of the event's kind on the wire."""
    if isinstance(event, HookEvent):
        return f"hook.{event.status}"
    if isinstance(event, Custom):
        return f"custom.{event.name}"
    return event.name if isinstance(event, Unknown) else event.type


def encode(event: Event) -> tuple[str, dict[str, Any]]:
    """Return the event's type and data; the turn is not part of the data."""
    if isinstance(event, Delta):
        return event.type, {"block": event.block, "text": clean_text(event.text)}
    if isinstance(event, Unknown):
        return event.name, dict(event.data)
    told = ((each, _plain(getattr(event, each.name))) for each in _told(type(event)))
    data = {each.wire: value for each, value in told if value is not None or each.is_needed}
    return wire_type(event), data


def decode(kind: str, data: Mapping[str, Any], *, turn: int | None = None) -> AgentEvent:
    """Return the event of its type and data; a kind that is not known here becomes `Unknown`."""
    cls, fixed = _class_of(kind)
    if cls is None:
        return Unknown(kind, dict(data), turn=turn)
    known = {each.name: data[each.wire] for each in _told(cls) if each.wire in data}
    if known.get("usage") is not None:
        known["usage"] = Usage.model_validate(known["usage"])
    return cast("AgentEvent", cls(**known, **fixed, turn=turn))


def _class_of(wire: str) -> tuple[type[Event] | None, dict[str, Any]]:
    if wire in _HOOK_TYPES:
        return HookEvent, {"status": wire.removeprefix("hook.")}
    if wire.startswith("custom."):
        return Custom, {"name": wire.removeprefix("custom.")}
    return _CLASSES.get(wire), {}


class _Told(NamedTuple):
    """A field that is told on the wire."""

    name: str
    wire: str
    is_needed: bool


def _told(cls: type[Event]) -> tuple[_Told, ...]:
    told = _told_by.get(cls)
    if told is None:
        told = _told_by[cls] = _fields_told(cls)
    return told


_told_by: dict[type[Event], tuple[_Told, ...]] = {}


def _fields_told(cls: type[Event]) -> tuple[_Told, ...]:
    hidden = _IN_MEMORY | _SPELLED_BY_TYPE.get(cls, set())
    return tuple(
        _Told(each.name, each.metadata.get("wire", each.name), each.default is MISSING)
        for each in fields(cls)
        if each.name not in hidden
    )


_SPELLED_BY_TYPE: dict[type[Event], set[str]] = {HookEvent: {"status"}, Custom: {"name"}}


def _plain(value: object) -> object:
    if isinstance(value, Usage):
        return value.model_dump(exclude_none=True)
    return jsonable(value)


def plain_value(value: object) -> Any:
    """Return a value that a tool gives as JSON can carry it; an event becomes its wire form.

    Raises:
        TypeError: When JSON has no form for it; the text names its class and the mend.
    """
    if not isinstance(value, Event):
        return strictly_jsonable(value)
    kind, data = encode(value)
    return {"type": kind, "data": data}


@runtime_checkable
class StrayTurn(Protocol):
    """What a provider of the loop kit ends a reply with; a loop that passes it on means no harm."""

    content: list[Any]
    stop_reason: str
    input: int
    output: int


def as_event(yielded: object) -> AgentEvent | None:
    """Return what a loop yielded as an event; None for a stray `Turn`, which says nothing new.

    A string is text, a dict is what its `type` says: text, thinking, ping, reset, or an event of
    its own. What belongs to a turn may say so by attributes `turn` and `block`.

    Raises:
        BadYield: When the value is nothing of these.
    """
    if isinstance(yielded, Event):
        return cast("AgentEvent", yielded)
    if isinstance(yielded, str):
        return TextDelta(_block(yielded), str(yielded), turn=_turn(yielded))
    if isinstance(yielded, Mapping):
        return _event_of_dict(cast("Mapping[str, Any]", yielded))
    if isinstance(yielded, StrayTurn):
        return None
    raise BadYield(
        f"a loop yields events, strings, or dicts with a 'type'; it yielded {_shown(yielded)}"
    )


def _event_of_dict(yielded: Mapping[str, Any]) -> AgentEvent:
    block, turn = _block(yielded), _turn(yielded)
    match yielded:
        case {"type": "text", "text": str(text)}:
            return TextDelta(block, text, turn=turn)
        case {"type": "thinking", "thinking": str(text)}:
            return ReasoningDelta(block, text, turn=turn)
        case {"type": "ping"}:
            return Ping()
        case {"type": "reset", "reason": str(reason)}:
            return Retry(reason=reason, turn=turn)
        case {"type": str(name)} if name:
            return Custom(name, dict(yielded), turn=turn)
        case _:
            raise BadYield(
                f"a dict that a loop yields names its 'type' as text; it yielded {_shown(yielded)}"
            )


def _turn(yielded: object) -> int | None:
    """Return the number of the turn that a string or a dict comes from, where it says so."""
    turn: object = getattr(yielded, "turn", None)
    return turn if isinstance(turn, int) else None


def _block(yielded: object) -> int:
    block: object = getattr(yielded, "block", 0)
    return block if isinstance(block, int) else 0


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
