"""What a loop does or looks at between its turns, recorded once: steps by name, and notes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import orjson

from loops.errors import DuplicateName, LoopFailed

from .idling import Idling
from .journal import Journal
from .publisher import Publisher

T = TypeVar("T")


class Steps:
    """The steps and notes of one pass."""

    def __init__(self, journal: Journal, publisher: Publisher, idling: Idling) -> None:
        self._journal = journal
        self._publisher = publisher
        self._idling = idling
        self._under_way: set[str] = set()

    async def take(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives, as JSON keeps it; a resumed run does not call it again.

        Raises:
            DuplicateName: When a step of this name is being taken already.
            LoopFailed: When the function gives what JSON cannot keep.
        """
        if name in self._under_way:
            raise DuplicateName(
                f"a step named {name!r} is being taken already; give steps at one time their names"
            )
        self._under_way.add(name)
        self._idling.busy(+1)
        try:
            value: T = orjson.loads(await self._taken(name, function))
        finally:
            self._idling.busy(-1)
            self._under_way.discard(name)
        return value

    async def _taken(self, name: str, function: Callable[[], Awaitable[object]]) -> bytes:
        key = self._journal.numbered(f"step:{name}")
        recorded = self._journal.unit(key)
        if recorded is not None:
            return recorded
        value = await function()
        try:
            encoded = orjson.dumps(value)
        except TypeError as error:
            raise LoopFailed(
                f"step {name!r} gave a {type(value).__name__}, which JSON cannot keep; "
                "let it give text, numbers, lists or dicts"
            ) from error
        self._publisher.say("step.finished", {"name": name})
        await self._publisher.send("record_unit", key, encoded)
        return encoded

    async def note(self, name: str, give: Callable[[], T]) -> T:
        """Return what the function gives, as JSON keeps it; a resumed run gets the same again."""
        key = self._journal.numbered(name)
        recorded = self._journal.unit(key)
        if recorded is None:
            recorded = orjson.dumps(give())
            await self._publisher.send("record_unit", key, recorded)
        value: T = orjson.loads(recorded)
        return value
