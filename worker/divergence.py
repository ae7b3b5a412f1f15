"""Refuse to go on where a resumed loop leaves its journal, if that might repeat a tool."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from loops.errors import ReplayDiverged
from loops.model import ModelRequest

from .answers import PATIENCE
from .begin import Begun
from .publisher import Publisher


class Divergence:
    """Knows what earlier passes did and this one has not come to."""

    def __init__(self, begun: Begun, publisher: Publisher) -> None:
        self._begun = begun
        self._publisher = publisher
        self._is_told = False
        self._asked = asyncio.Event()

    def note_asked(self) -> None:
        """Note that the loop has asked a model: perhaps for what it is known by."""
        self._asked.set()

    async def refuse(self, request: ModelRequest) -> None:
        """Refuse what may repeat a tool, once it is sure that the loop does not come to it.

        Raises:
            ReplayDiverged: When it might.
        """
        while found := self._unmet_call():
            self._asked.clear()
            with suppress(TimeoutError):
                # Another branch of the loop may be about to ask for it.
                async with asyncio.timeout(PATIENCE):
                    await self._asked.wait()
                    continue
            raise ReplayDiverged(
                f"the resumed loop asks {request.model!r} something new before its earlier "
                f"call of {found['name']!r} with {found['arguments']!r}, which must not happen "
                "twice; what decides a request comes from the journal: take it in context.step"
            )
        is_off = self._begun.journal.unmet_turns() and not self._publisher.open_turns
        if is_off and not self._is_told:
            self._is_told = True
            self._publisher.say("run.retrying", {"reason": "diverged"})

    def _unmet_call(self) -> dict[str, Any] | None:
        # While another turn streams, its branch of the loop may still come to the call.
        is_busy = bool(self._publisher.open_turns)
        return None if is_busy else self._begun.journal.unmet_call(self._begun.calls)
