"""The turns of one pass: a recorded one is met again, a new one is asked and recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loops.budget import Tally
from loops.events import StreamEnd, StreamStart, ToolEnd
from loops.history import repair
from loops.messages import ToolCall
from loops.model import ModelPort, ModelRequest

from .begin import Begun
from .divergence import Divergence
from .left import Left
from .open_turn import Ask, DurableTurn
from .pace import Pace
from .publisher import Publisher
from .waits import NO_TURN, Turn, Waits

logger = logging.getLogger("loopmill.run")


class Turns:
    """What one pass asks of models."""

    def __init__(
        self,
        begun: Begun,
        *,
        publisher: Publisher,
        waits: Waits,
        pace: Pace,
        is_draining: Callable[[], bool],
    ) -> None:
        self._begun = begun
        self._publisher = publisher
        self._waits = waits
        self._pace = pace
        self._is_draining = is_draining
        self._divergence = Divergence(begun, publisher)
        self._turns: dict[str, DurableTurn] = {}
        self._is_closing = False
        self.tally = Tally()
        """What the pass takes, replayed turns included."""
        self.left: asyncio.Future[Left] = asyncio.get_running_loop().create_future()
        """Resolved when the pass itself wants to end before its loop does."""

    @property
    def last(self) -> DurableTurn | None:
        """The turn that was asked for last."""
        return next(reversed(self._turns.values()), None)

    @property
    def last_key(self) -> str:
        """The key of the turn that was asked for last; empty before the first."""
        last = self.last
        return "" if last is None else last.key

    async def open(self, request: ModelRequest, port: ModelPort) -> DurableTurn:
        """Return the turn that the request asks for: a recorded one, or one to be asked.

        Raises:
            ReplayDiverged: When going on might repeat a tool.
            RunLeft: When the pass owns its run no more.
        """
        request = replace(request, messages=tuple(repair(request.messages)))
        key, is_exact = self._begun.journal.turn_key(request)
        self._divergence.note_asked()
        recorded = self._begun.journal.turn(key)
        if recorded is None:
            await self._divergence.refuse(request)
            if self._is_draining():
                await self._leave(Left.HANDED_BACK)
        if not is_exact:
            logger.warning("a clock stands in the system prompt of turn %s: use context.now", key)
        self.tally.turns += 1
        paced, number = self._pace.over(port, self._waits.idling.held_up), self.tally.turns
        turn = DurableTurn(self, key, number, asked=Ask(request, paced), recorded=recorded)
        turn.failures = self._begun.failures.get(key, 0)
        turn.history_length = self._publisher.history_length
        self._turns[key] = turn
        self._waits.follow(StreamStart(turn.model, turn=number))
        return turn

    def part(self, call: ToolCall | None) -> Turn:
        """Return the turn of a call from which something is started, up to and with its block."""
        turn = None if call is None else self._turns.get(call.turn)
        if call is None or turn is None:
            return NO_TURN
        turn.has_started_call = True
        length, part = turn.part(call.block)
        return turn.key, part, length

    async def _leave(self, left: Left) -> None:
        """End the pass from within: wait until `drive` has closed the loop."""
        if not self.left.done():
            self.left.set_result(left)
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Record nothing more: the loop is being closed."""
        self._is_closing = True

    # -- what a turn asks of its pass

    def turn_opened(self, turn: DurableTurn) -> None:
        """Publish that the turn began."""
        self._publisher.open_turns.add(turn.key)
        self._waits.idling.busy(+1)
        self._publisher.say("turn.started", {"model": turn.model}, turn=turn.number, opens=turn.key)

    async def record_turn(self, turn: DurableTurn, record: bytes, end: dict[str, Any]) -> None:
        """Record the turn whole, and publish its end."""
        self._publisher.open_turns.discard(turn.key)
        self._waits.idling.busy(-1)
        self._publisher.say("turn.finished", end, turn=turn.number)
        # A turn that its run's end has cut off is no answer: a run that goes on with it asks anew.
        if not self._is_closing:
            await self._publisher.send("record_unit", turn.key, record)
        self.turn_ended(turn)

    def turn_ended(self, turn: DurableTurn) -> None:
        """Note that the loop has met all of the turn, recorded now or by an earlier pass."""
        for event in turn.given:
            if isinstance(event, ToolEnd):
                self._waits.follow(event)
        self._waits.follow(StreamEnd(stop_reason="", turn=turn.number))

    async def fail_pass(self, turn: DurableTurn) -> None:
        """Count the provider's failure and end the pass."""
        await self._publisher.send("fail_turn", turn.key)
        await self._leave(Left.PASS_ENDED)

    def add_usage(self, turn: DurableTurn, end: StreamEnd) -> None:
        """Count what a turn has cost."""
        self.tally.spend(end.usage)
        self.tally.note(turn.model, end.stop_reason, end.usage)
