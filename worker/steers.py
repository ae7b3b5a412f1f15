"""What is said to a run while it goes on: taken in between two turns, and once for all passes.

A resumed run takes in the same at the same place: after the turn before it. Where it has not come
to its end yet, it takes in nothing new: neither before a turn that is recorded, nor before a
message that an earlier pass has stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from loops.messages import Message

from .begin import Begun
from .publisher import Publisher

STEER = "steer:"
"""What the keys of these units begin with; the key of the turn before follows."""


class Steers:
    """What is said to the run of one pass.

    Args:
        begun: What stands.
        publisher: Sends the scripts.
        place: Gives the key of the turn that was asked for last.
    """

    def __init__(self, begun: Begun, publisher: Publisher, place: Callable[[], str]) -> None:
        self._journal = begun.journal
        self._publisher = publisher
        self._place = place
        self._stored = begun.stored
        self._asked: dict[str, asyncio.Future[list[Any]]] = {}
        self._taken: set[str] = set()
        self._heard = begun.said
        self._took = begun.said - begun.steers
        self.is_ignored = begun.steers > 0
        """Whether something waited when the pass began, and nothing of it was taken in: the loop
        never does."""

    def hear(self, said: int) -> None:
        """Note how many messages were said so far."""
        self._heard = max(self._heard, said)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take in here; one place takes in once."""
        unit = self._unit
        if unit in self._taken:
            return False
        is_known = unit in self._asked or self._journal.unit(unit) is not None
        return is_known or (self._heard > self._took and self._is_at_end)

    async def take(self) -> Sequence[Message]:
        """Take in what was said since the last turn.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        if not self.is_waiting:
            return ()
        unit = self._unit
        said = self._journal.unit(unit) or await self._new(unit)
        self._taken.add(unit)
        return [Message.from_raw(raw) for raw in orjson.loads(said)]

    async def _new(self, unit: str) -> bytes:
        # Whoever gives up waiting gives up for itself alone: what was taken in is handed out later.
        if unit not in self._asked:
            self._asked[unit] = self._publisher.send("take_steers", unit)
        _, _, said, took = await asyncio.shield(self._asked[unit])
        self._took = max(self._took, took)
        if said is not None:
            self.is_ignored = False
        return said or b"[]"

    @property
    def _unit(self) -> str:
        return f"{STEER}{self._place()}"

    @property
    def _is_at_end(self) -> bool:
        return not self._journal.unmet_turns() and self._publisher.added >= self._stored
