"""Where a run's session is kept: with the run itself, or in a store of this process.

Places are counted as in `Session.messages`. What is kept also stands in the history of the run's
context, so that whatever else reads that sees the same.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from loops.blocks import Raw
from loops.context import Context
from loops.messages import Message, Messages
from loops.runtime import active_scope

from .marker import head_before
from .plain import read
from .stores import MemorySessions, SessionStore, Window


class Backing(Protocol):
    """Keeps the session of one run."""

    async def load(self) -> None:
        """Let the session's messages stand in the run's history, before what is said to the run."""
        ...

    async def append(self, place: int, messages: Sequence[Message]) -> None:
        """Keep the messages from the place on, and return when they are kept."""
        ...

    async def mark(self, marker: Raw) -> None:
        """Keep what later runs are shown instead of the older part."""
        ...


def backing_of(context: Context) -> Backing:
    """Return what keeps the session of the run.

    Where the runtime keeps a run's history, that is the session. In one process a session without
    an id is the history that the run was given, and ends with it.
    """
    if context.current_runtime().keeps or not context.chat_id:
        return _InRun(context)
    store: SessionStore = context.sessions or _memory
    return _InStore(context, store)


_memory = MemorySessions()
"""The sessions of this process, for runs whose context names no other store."""


def front_of(context: Context) -> int:
    """Return how many messages at the front of the history stand for the session's older part."""
    return int((context.marker or {}).get("first_kept", 0))


class _History:
    """The history of the run's context, as it was when the session was opened."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.front = front_of(context)

    def append(self, place: int, messages: Sequence[Message]) -> None:
        """Let the messages stand there; the first stands for what was said to the run."""
        if messages:
            self._context.messages[self.front + place :] = messages


class _InRun:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._history = _History(context)

    async def load(self) -> None:
        """It is there."""

    async def append(self, place: int, messages: Sequence[Message]) -> None:
        self._history.append(place, messages)
        await self._context.current_runtime().checkpoint()

    async def mark(self, marker: Raw) -> None:
        scope = active_scope()
        if scope is None or scope.context is not self._context:
            # A conversation that a loop has besides its run's is no part of the run's session.
            return
        moved = {name: self._history.front + marker[name] for name in ("first_kept", "cleared")}
        await self._context.current_runtime().checkpoint({**marker, **moved})


class _InStore:
    def __init__(self, context: Context, store: SessionStore) -> None:
        self._context = context
        self._store = store
        self._key = _key(context)
        self._history = _History(context)
        self._first = 0
        self._owed: list[Message] = []

    async def load(self) -> None:
        window = await self._store.load(self._key)
        messages = self._context.messages
        is_asked = bool(messages) and messages[-1].role == "user"
        before = messages[:-1] if is_asked else messages[:]
        if not window.length and window.marker is None:
            # What was given is the session's beginning.
            self._owed = list(before)
            return
        # Counted from the end: a message that cannot be read leaves a hole.
        self._first = window.length - len(window.entries)
        held = [read(each.message) for each in window.entries]
        front = head_before(
            (window.marker or {}).get("front", []), [each.raw() for each in held[:1]]
        )
        messages[: len(before)] = [*Messages.of(front), *held]
        self._context.marker = _shown(window, self._first, len(front))
        self._history = _History(self._context)

    async def append(self, place: int, messages: Sequence[Message]) -> None:
        if self._owed:
            await self._store.append(self._key, 0, [each.stored() for each in self._owed])
            self._owed = []
        stored = [each.stored() for each in messages]
        await self._store.append(self._key, self._first + place, stored)
        self._history.append(place, messages)

    async def mark(self, marker: Raw) -> None:
        moved = {name: self._first + marker[name] for name in ("first_kept", "cleared")}
        await self._store.mark(self._key, {**marker, **moved})


def _shown(window: Window, first: int, front: int) -> dict[str, Any] | None:
    """Return the marker with its places in the history that the run gets."""
    marker = window.marker
    if marker is None:
        return None
    moved = {
        name: max(0, int(marker.get(name, 0)) - first) + front for name in ("first_kept", "cleared")
    }
    return {**marker, **moved}


def _key(context: Context) -> str:
    """Return the session's id in the store: two users' sessions of one name are two sessions."""
    user: object = getattr(context.user, "id", context.user)
    # Unambiguous, whatever stands in the two: no user comes to a session of another one's.
    return orjson.dumps([None if user is None else str(user), context.chat_id]).decode()
