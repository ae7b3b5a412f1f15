"""What a tool may know of the run that calls it, and what it may tell it."""

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from .messages import ToolCall
from .wire import plain_value


class ProgressSink(Protocol):
    """Where the values go that a tool gives before its result."""

    def __call__(self, value: object, *, kept: bool) -> None:
        """Take a JSON value; all that are `kept` arrive and in order, else the latest matters."""
        ...


def _nowhere(value: object, *, kept: bool) -> None:
    del value, kept


NO_CALL = ToolCall(id="", key="", name="", arguments="{}")
"""The call of a tool that is tried without a run."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the run that calls it, for a parameter annotated with this class."""

    user: Any = None
    workspace: Any = None
    chat_id: str | None = None
    """The session's id."""
    approvals: frozenset[str] = frozenset()
    """The keys of the calls that a person has granted."""
    auto: bool = True
    modes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    skills: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run: str = field(default="", kw_only=True)
    origin: str = field(default="", kw_only=True)
    """The run with whose work this one goes on; empty where it began by itself."""
    call: ToolCall = field(default=NO_CALL, kw_only=True)
    attempt: int = field(default=1, kw_only=True)
    """The how-manieth try of this call, from 1."""
    cancelled: threading.Event = field(default_factory=threading.Event, kw_only=True)
    """Set when the call is cancelled or out of time; a tool in a thread should look at it."""
    sink: ProgressSink = field(default=_nowhere, kw_only=True, repr=False)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for each try of this call, to hand on to other services.

        A run that goes on with the work of another one has its keys.
        """
        return f"{self.origin or self.run}:{self.call.key}"

    def progress(self, value: object) -> None:
        """Tell how far the tool is; when told faster than readers take it, the latest counts."""
        self.sink(plain_value(value), kept=False)

    def give(self, value: object) -> None:
        """Give one value of many; all of them reach the readers, in order."""
        self.sink(plain_value(value), kept=True)


running_call: ContextVar[ToolCall] = ContextVar("running_call")
"""The call that is being performed here; only `perform` sets it."""


running_context: ContextVar[ToolContext | None] = ContextVar("running_context", default=None)
"""What the tool that is performed here may know; only `perform` sets it."""


def current_tool_call() -> ToolCall:
    """Return the call that is being performed.

    Raises:
        LookupError: Outside of a tool.
    """
    call = running_call.get(None)
    if call is None:
        raise LookupError("no tool is being called here; ask from inside of a tool")
    return call
