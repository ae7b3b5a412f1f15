"""When all open work of a run waits for hooks: a pure fold over the run's events."""

from collections import defaultdict
from collections.abc import Set

from .events import (
    AgentEvent,
    HookEvent,
    Retry,
    RunBlocked,
    StreamEnd,
    StreamStart,
    ToolCallResult,
    ToolEnd,
)

_Turn = int | None


class BlockedFold:
    """Follows a run's events; tells once each time that nothing but hooks is waited for.

    That is so when a hook is open, a reply has ended and none is being written, and each call
    without a result is one that an open hook names. A hook inside of a tool that does not name its
    call blocks nothing, as far as one can know.
    """

    def __init__(self) -> None:
        self.hooks: dict[str, HookEvent] = {}
        """The open hooks, by label, in the order in which they were opened."""
        self.is_blocked = False
        self._writing: set[_Turn] = set()
        self._calls: defaultdict[_Turn, dict[str, str]] = defaultdict(dict)
        self._answered: set[str] = set()
        self._has_ended = False

    def feed(self, event: AgentEvent) -> RunBlocked | None:
        """Take the next event; return the event of a run that is blocked from here on."""
        match event:
            case StreamStart():
                self._begin(event.turn)
            case ToolEnd():
                self._calls[event.turn][event.call] = event.id
                # An interrupted turn that is gone on with shows its calls alone.
                self._has_ended |= event.replayed and not self._writing
            case StreamEnd():
                self._writing.discard(event.turn)
                self._has_ended = True
            case ToolCallResult():
                self._answered.add(event.call)
            case HookEvent(run=None):
                self._note(event)
            case Retry():
                self._forget()
            case _:
                return None
        return self._turned()

    def _begin(self, turn: _Turn) -> None:
        self._writing.add(turn)
        self._calls.pop(turn, None)
        self._has_ended = False
        self.is_blocked = False

    def _note(self, event: HookEvent) -> None:
        if event.status == "opened":
            self.hooks[event.label] = event
        else:
            self.hooks.pop(event.label, None)
            self.is_blocked = False

    def _forget(self) -> None:
        """The last reply is asked for again: neither it nor its calls count."""
        if self._calls:
            self._calls.popitem()
        self._writing.clear()
        self._has_ended = False

    def _turned(self) -> RunBlocked | None:
        was, self.is_blocked = self.is_blocked, self.is_blocked or self._is_blocked()
        return RunBlocked(list(self.hooks)) if self.is_blocked and not was else None

    def _is_blocked(self) -> bool:
        if not self.hooks or not self._has_ended or self._writing:
            return False
        named: Set[str | None] = {hook.call for hook in self.hooks.values()}
        return all(
            key in self._answered or key in named or given in named
            for calls in self._calls.values()
            for key, given in calls.items()
        )
