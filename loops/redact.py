"""Hide what a tool does not want to be shown: in events, and in lists of calls.

The model, the history and the tool itself see everything; so does a reader in the same process.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from .errors import InvalidArguments
from .events import AgentEvent, ToolCallResult, ToolDelta, ToolEnd, ToolStart
from .jsonable import jsonable
from .messages import parse_arguments
from .tools import Redaction, Tool

HIDDEN = "[hidden]"
"""What is shown instead."""


def hide(name: str, arguments: str, hides: Redaction) -> str:
    """Return a call's arguments as they may be shown; what cannot be read is not shown at all."""
    if hides is False:
        return arguments
    try:
        given = parse_arguments(name, arguments)
    except InvalidArguments:
        return orjson.dumps(HIDDEN).decode()
    return orjson.dumps(jsonable(hidden(given, hides))).decode()


def hidden(given: Mapping[str, Any], hides: Redaction) -> dict[str, Any]:
    """Return arguments as they may be shown."""
    names = given if hides is True else hides or ()
    return {name: HIDDEN if name in names else value for name, value in given.items()}


def unhidden(shown: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that came back as they were shown, with what was hidden."""
    return {
        name: given.get(name, value) if value == HIDDEN else value for name, value in shown.items()
    }


class Redactor:
    """Takes the events of one run in their order, and returns them as they may be shown.

    Args:
        tools: Gives the tools that the run has at the moment, by name.
    """

    def __init__(self, tools: Callable[[], Mapping[str, Tool]]) -> None:
        self._tools = tools
        self._hides: dict[str, Redaction] = {}
        self._shown: set[tuple[int | None, int]] = set()
        self._look()

    def _look(self) -> None:
        self._hides |= {name: tool.redact for name, tool in self._tools().items() if tool.redact}

    def shown(self, event: AgentEvent) -> AgentEvent | None:
        """Return the event as it may be shown; None where nothing of it may be."""
        match event:
            case ToolStart():
                self._look()
                self._note(event)
                return event
            case ToolDelta() if self._hides and (event.turn, event.block) not in self._shown:
                # What no start has named may be anything.
                return None
            case ToolEnd() if event.name in self._hides:
                shown = hide(event.name, event.arguments, self._hides[event.name])
                return replace(event, arguments=shown)
            case ToolCallResult() if self._is_hidden(event):
                return replace(event, content=HIDDEN, told=None)
            case _:
                return event

    def _note(self, event: ToolStart) -> None:
        place = (event.turn, event.block)
        if event.name in self._hides:
            self._shown.discard(place)
        else:
            self._shown.add(place)

    def _is_hidden(self, event: ToolCallResult) -> bool:
        """Say whether a result is hidden; what does not fit is quoted in its error."""
        hides = self._hides.get(event.name, False)
        quotes = event.is_error and str(event.content).startswith(InvalidArguments.__name__)
        return hides is True or (bool(hides) and quotes)
