"""A call on its way: as it stands in a reply, as it is planned, and what came of it; pure."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from loops.blocks import Raw
from loops.fold import UNPARSED
from loops.guard import Raised, outcome_of_call
from loops.jsonable import jsonable
from loops.messages import ToolCall, ToolResult

from .events import step as told_step
from .risk import risk
from .shown import CallBlock
from .toolbox import Entry


class Failure(str):
    """What a model is told of a call that failed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that can be carried out."""

    block: Raw
    step: Raw
    """What the reader is shown when it begins."""
    work: Callable[[], Awaitable[Any]]
    """Carries it out and gives what the tool gave, or a `Failure`."""
    entry: Entry | None = None
    card: Raw | None = None
    """What the reader is shown when a person is asked first."""


def call_of(block: Raw) -> tuple[ToolCall, dict[str, Any]]:
    """Return the call that a block is, and its arguments as far as they are an object."""
    given: object = block.get("input")
    arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
    if set(arguments) == {UNPARSED}:
        written = str(arguments[UNPARSED])
    else:
        written = orjson.dumps(jsonable(block.get("input") or arguments)).decode()
    key = str(block.get("call") or "")
    turn, _, number = key.rpartition(".")
    call = ToolCall(
        id=str(block.get("id") or ""),
        key=key,
        name=str(block.get("name") or ""),
        arguments=written,
        turn=turn,
        block=int(number) if number.isdigit() else 0,
    )
    return call, arguments


def arguments_in(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; none where they are no object."""
    parsed = outcome_of_call(call.parsed)
    return {} if isinstance(parsed, Raised) else parsed


def step_of(block: Raw, label: str) -> Raw:
    """Return what a reader is shown when a call begins: its name, unless it knows that."""
    is_announced = isinstance(block, CallBlock) and block.is_announced
    name = None if is_announced else str(block.get("name"))
    return told_step(label, tool=name, id=str(block.get("id") or block.get("call") or ""))


def card_of(block: Raw, arguments: Mapping[str, Any], *, key: str, label: str, step: str) -> Raw:
    """Return what a reader is shown when a person is asked first."""
    name = str(block.get("name"))
    return {
        "type": "ui",
        "action": "confirm",
        "id": block.get("id"),
        "tool": name,
        "tool_name": name,
        "key": key,
        "label": label,
        "step": step,
        "args": dict(arguments),
        "risk": risk(name, arguments) or "write",
    }


def refused(block: Raw, text: str) -> Planned:
    """Return the plan of a call that is answered, and not carried out."""

    async def answer() -> Any:
        return Failure(f"Error: {text}")

    return Planned(block, {**step_of(block, ""), "ok": False}, answer)


async def handed_over(card: Raw) -> Raw:
    """Return the card as what the call gave: it is the person's turn, and the next run's."""
    return {**card, "ack": "Not carried out: a person is asked first, and their answer comes next."}


def outcome(result: ToolResult) -> Any:
    """Return what a call gave, or what the model is told of its failure."""
    given = result.content if result.told is None else result.told
    if not result.is_error:
        return given
    text = given if isinstance(given, str) else result.text
    return Failure(text if text.startswith("Error:") else f"Error: {text}")
