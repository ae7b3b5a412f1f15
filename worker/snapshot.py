"""The fold of a log's events into what a client shows: what stands for a head that was cut.

Pure: the same events give the same state, in one go or in parts. Only whole turns are ever cut, so
no later `turn.reset` reaches into what was folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .event_log import LogEvent

TEXT_LIMIT = 64 * 1024
"""How many characters of a block's text are kept; the rest is counted only."""

CUSTOM_LIMIT = 100
"""How many of the newest custom events are kept."""

State = dict[str, Any]


def empty_state() -> State:
    """Return the state before the first event."""
    return {"seq": 0, "attempt": 0, "turns": [], "calls": {}, "custom": []}


def fold_events(state: State, events: Iterable[LogEvent]) -> State:
    """Return the state after the events; the given one is not to be used again."""
    for event in events:
        state["seq"] = event.seq
        state["attempt"] = event.attempt
        name, _, kind = event.type.partition(".")
        step = _STEPS.get(name)
        # An event of a kind that is not known here, or is not what it says it is, stays as it came.
        if step is not None and _is_whole(event):
            step(state, event, kind)
        else:
            state["custom"] = [*state["custom"], _plain(event)][-CUSTOM_LIMIT:]
    return state


_NEEDED = {
    "text": ("block",),
    "reasoning": ("block",),
    "call": ("block",),
    "builtin": ("block",),
    "tool": ("call",),
}


def _is_whole(event: LogEvent) -> bool:
    needed = _NEEDED.get(event.type.partition(".")[0], ())
    if event.type.endswith(".delta"):
        needed = (*needed, "text")
    if event.type == "turn.reset":
        needed = ("after",)
    return all(name in event.data for name in needed)


def _plain(event: LogEvent) -> State:
    return {"seq": event.seq, "type": event.type, "data": event.data}


def _turn_of(state: State, event: LogEvent) -> State:
    turns: list[State] = state["turns"]
    if not turns or turns[-1]["turn"] != event.turn:
        for turn in turns:
            if turn["turn"] == event.turn and turn["seq"] > state.get("reset", 0):
                return turn
        turns.append({"turn": event.turn, "seq": event.seq, "blocks": {}})
    return turns[-1]


def _fold_turn(state: State, event: LogEvent, kind: str) -> None:
    if kind == "reset":
        after: int = event.data["after"]
        # What the runtime itself published stays: the turn's start, and its calls.
        state["turns"] = [turn for turn in state["turns"] if turn["seq"] <= after]
        for turn in state["turns"]:
            blocks: dict[str, State] = turn["blocks"]
            turn["blocks"] = {k: block for k, block in blocks.items() if block["seq"] <= after}
        state["custom"] = [one for one in state["custom"] if one["seq"] <= after]
        return
    turn = _turn_of(state, event)
    turn.update(event.data)


def _fold_block(state: State, event: LogEvent, kind: str) -> None:
    blocks: dict[str, State] = _turn_of(state, event)["blocks"]
    name = event.type.partition(".")[0]
    place = f"{name}:{event.data['block']}"
    block = blocks.setdefault(place, {"seq": event.seq, "type": name, "text": ""})
    if kind == "delta":
        length = block.get("length", len(block["text"])) + len(event.data["text"])
        block["text"] = (block["text"] + event.data["text"])[:TEXT_LIMIT]
        if length > TEXT_LIMIT:
            block["length"] = length
    else:
        block.update({k: v for k, v in event.data.items() if k != "block"})


_LONG = ("content", "told")
"""What of a result is cut: its beginning is enough to show what it is."""


def _fold_tool(state: State, event: LogEvent, kind: str) -> None:
    call = state["calls"].setdefault(event.data["call"], {})
    call["state"] = kind
    call.update({k: v for k, v in event.data.items() if k not in {"call", *_LONG}})
    call.update({k: str(event.data[k])[:1024] for k in _LONG if k in event.data})


def _fold_run(state: State, event: LogEvent, kind: str) -> None:
    state["run"] = kind
    state["data"] = event.data


_STEPS: dict[str, Callable[[State, LogEvent, str], None]] = {
    "turn": _fold_turn,
    "text": _fold_block,
    "reasoning": _fold_block,
    "call": _fold_block,
    "builtin": _fold_block,
    "tool": _fold_tool,
    "run": _fold_run,
}
