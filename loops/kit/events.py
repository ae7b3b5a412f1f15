"""The dicts that a loop of the kit yields; text is a bare string.

Besides these there are `{"type": "ping"}`, a sign of life that is never stored, and whatever else a
loop wants its reader to know: `{"type": "status", …}`, `{"type": "ui", "action": …}`.
"""

from collections.abc import Mapping
from typing import Any, Literal

Event = dict[str, Any]
Style = Literal["info", "warning", "error", "success"]


def text(said: str) -> str:
    """Return text as it is yielded: as it is."""
    return said


def thinking(thought: str) -> Event:
    """Return what tells a part of what the model thinks."""
    return {"type": "thinking", "thinking": thought}


def step(label: str, *, tool: str | None = None, id: str | None = None) -> Event:  # noqa: A002 - the field's name
    """Return what tells that something is being done; events of one id are about one step."""
    told = {"type": "step", "step": label, "tool_name": tool, "id": id}
    return {name: value for name, value in told.items() if value is not None}


def tool_args(id: str, delta: str) -> Event:  # noqa: A002 - the field's name
    """Return what tells more of the arguments that the model writes for a step."""
    return {"type": "step_arg", "id": id, "delta": delta}


def callout(message: str, style: Style = "info") -> Event:
    """Return a word to the reader that is no part of the answer."""
    return {"type": "callout", "callout": message, "style": style}


def tool_call(name: str, inp: Mapping[str, Any]) -> Event:
    """Return what tells that a tool was called, and with what."""
    return {"type": "tool_call", "tool": name, "args": dict(inp)}


def reset(reason: str) -> Event:
    """Return what voids all that was shown of the reply that is asked for again."""
    return {"type": "reset", "reason": reason}


PING: Event = {"type": "ping"}


def to_ui(event: object) -> object:
    """Return the event as a reader gets it: the very same object."""
    return event
