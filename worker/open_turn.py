"""One turn of a durable run: replayed from the journal, or asked and recorded.

* A recorded turn gives the very events that the loop was given before.
* A turn from which a call was started is never asked again: cut by a crash or by its provider, it
  is its journaled blocks, and ends with the reason `cut`.
* A provider that fails before any output is asked again in place. After partial output the pass
  ends, and the next one meets the turn as after a crash. The third failure is the loop's to see.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loops.closing import close
from loops.errors import ProviderError, Refused
from loops.events import ModelEvent, StreamEnd, StreamStart
from loops.model import ModelPort, ModelRequest, ask, stamp
from loops.wire import encode

from .journal import GrowingTurn, RecordedTurn
from .provider_errors import decode_error, encode_error

FAILURES = 3
"""After how many failures of its provider a turn ends with the error."""

ASK_AGAIN = 0.5
"""Seconds before a provider that failed at once is asked again, doubled each time, with jitter."""


LONGEST = 60.0
"""Seconds that a provider may ask for, before it is asked all the same."""


class TurnDesk(Protocol):
    """What a turn needs of the pass that it belongs to."""

    def turn_opened(self, turn: DurableTurn) -> None:
        """Publish that the turn began; until it is recorded, all that it shows may be voided."""
        ...

    async def record_turn(self, turn: DurableTurn, record: bytes, end: dict[str, Any]) -> None:
        """Record the turn whole, with all that was yielded before, and publish its end."""
        ...

    def turn_ended(self, turn: DurableTurn) -> None:
        """Note that the loop has met all of the turn, recorded now or by an earlier pass."""
        ...

    async def fail_pass(self, turn: DurableTurn) -> None:
        """Count the provider's failure and end the pass; never returns."""
        ...

    def add_usage(self, turn: DurableTurn, end: StreamEnd) -> None:
        """Count what the turn has cost."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What a turn asks, and whom."""

    request: ModelRequest
    port: ModelPort


class DurableTurn:
    """A turn that has been asked for."""

    def __init__(
        self, desk: TurnDesk, key: str, number: int, *, asked: Ask, recorded: RecordedTurn | None
    ) -> None:
        self._desk = desk
        self._asked = asked
        self._recorded = recorded
        self._given: list[ModelEvent] = []
        self._record = GrowingTurn(number)
        self._is_over = False
        self._is_open = False
        self.key = key
        self.number = number
        self.failures = 0
        """How often its provider has failed, over all passes."""
        self.history_length = 0
        """How many messages the history had when it was asked for."""
        self.has_started_call = False
        """Whether a call of it was started: then it is never asked again."""

    @property
    def given(self) -> Sequence[ModelEvent]:
        """What the loop was given of the turn so far; of one that was declined nothing."""
        return self._given

    @property
    def model(self) -> str:
        """The name of the model that is asked."""
        return self._asked.port.name

    def part(self, block: int) -> tuple[int, bytes]:
        """Return the turn up to and with the end of a block: its length in events, its record."""
        return self._record.up_to(block)

    async def events(self) -> AsyncIterator[ModelEvent]:
        """Yield the reply once; the turn is recorded when it is asked for more than its last event.

        Raises:
            ProviderError: As recorded, or after too many failures.
            RunLeft: When the pass owns its run no more.
        """
        recorded = self._recorded
        if recorded is not None and recorded.is_complete:
            source = self._replayed(recorded)
        elif recorded is not None:
            source = self._cut(recorded)
        else:
            source = self._live()
        try:
            async for event in source:
                self._given.append(event)
                self._record.add(event)
                yield event
        except Refused:
            # In a history it would make the model decline whatever comes after it.
            self._given.clear()
            raise
        finally:
            await close(source)

    async def _replayed(self, recorded: RecordedTurn) -> AsyncIterator[ModelEvent]:
        for event in recorded.events:
            if isinstance(event, StreamEnd):
                self._desk.add_usage(self, event)
            yield stamp(event, key=self.key, number=self.number, replayed=True)
        self._is_over = True
        self._desk.turn_ended(self)
        if recorded.error is not None:
            raise decode_error(recorded.error)

    async def _cut(self, recorded: RecordedTurn) -> AsyncIterator[ModelEvent]:
        self._open()
        self.has_started_call = True
        for event in recorded.events:
            yield stamp(event, key=self.key, number=self.number)
        end = StreamEnd(stop_reason="cut")
        yield stamp(end, key=self.key, number=self.number)
        await self._finish(end)

    async def _live(self) -> AsyncIterator[ModelEvent]:
        self._open()
        while True:
            reply = ask(self._asked.port, self._asked.request)
            try:
                async for event in reply:
                    yield stamp(event, key=self.key, number=self.number)
                    if isinstance(event, StreamEnd):
                        await self._finish(event)
            except ProviderError as error:
                await self._failed(error)
            else:
                return
            finally:
                await close(reply)

    async def _failed(self, error: ProviderError) -> None:
        """Return when the provider is to be asked again in place."""
        self.failures += 1
        if self._has_output and (self.has_started_call or (error.retryable and not self._is_last)):
            await self._desk.fail_pass(self)
        if self._is_last or not error.retryable:
            end = {"stop_reason": "error"}
            record = self._record.whole(encode_error(error))
            self._is_over = True
            await self._desk.record_turn(self, record, end)
            raise error
        self._given.clear()
        self._record = GrowingTurn(self.number)
        await asyncio.sleep(_pause(error, self.failures))

    @property
    def _is_last(self) -> bool:
        tries = self._asked.request.tries
        # What was shown of a reply only a new pass can void, so the loop's own number is for those
        # that failed at once.
        return self.failures >= (FAILURES if tries is None or self._has_output else tries)

    @property
    def _has_output(self) -> bool:
        return any(not isinstance(event, StreamStart) for event in self._given)

    def _open(self) -> None:
        self._is_open = True
        self._desk.turn_opened(self)

    async def leave(self) -> None:
        """Finish the turn before its end: what was seen of it is the turn. No-op after the end."""
        if self._is_open and not self._is_over:
            last = self._given[-1] if self._given else None
            end = last if isinstance(last, StreamEnd) else StreamEnd(stop_reason="left")
            await self._finish(end)

    async def _finish(self, end: StreamEnd) -> None:
        self._is_over = True
        self._desk.add_usage(self, end)
        await self._desk.record_turn(self, self._record.whole(), encode(end)[1])


def _pause(error: ProviderError, failures: int) -> float:
    """Return the seconds before a provider is asked again: at least as many as it asks for."""
    jitter = 1 + random.random()  # noqa: S311 - no secret hangs on it
    backoff: float = ASK_AGAIN * 2 ** (failures - 1) * jitter
    asked = error.retry_after
    return max(backoff, min(asked.total_seconds(), LONGEST) if asked else 0.0)
