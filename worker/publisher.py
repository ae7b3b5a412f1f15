"""What a pass sends: its loop's yields, its new messages, and the scripts that carry them.

The first yield after a pause goes at once, what follows within 50 ms or 4 KB. A loop that yields
faster than the server takes it waits for the server; and one that never waits by itself lets the
others of its process go on now and then.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from loops.context import Context
from loops.errors import RunLeft
from loops.events import Event
from loops.messages import as_message

from .journal import encode_message
from .outbox import Outbox
from .wire import Part
from .writer import Writer

WINDOW = 0.05
"""Seconds between two flushes of a loop's yields; the first one goes at once."""

QUICK = 0.02
"""The same for a gateway's runs, whose frames a caller waits for."""

CLOCK = 0.001
"""Seconds by which an event loop's timer may come early: uvloop counts in milliseconds."""

FLUSH_SIZE = 4096
"""How many characters may wait before they are flushed all the same."""

BURST = 1024 * 1024
"""How many characters may be without an answer, before the loop waits for one."""

BREATH = 100
"""How many yields a loop may make before others of the process have a turn."""


class Publisher:
    """Collects what a pass has to say, and sends it in order.

    Args:
        writer: Sends scripts.
        outbox: Keeps what waits.
        base: How many messages the session had before the run.
        ahead: How many yields may be without an answer before the loop waits; None for any number.
        window: Seconds between two flushes.
    """

    def __init__(
        self,
        writer: Writer,
        outbox: Outbox,
        *,
        base: int,
        ahead: int | None = None,
        window: float = WINDOW,
    ) -> None:
        self._window = window
        self._writer = writer
        self._outbox = outbox
        self._base = base
        self._slots = 0
        self._context: Context | None = None
        self._loop = asyncio.get_running_loop()
        self._flush_due: asyncio.Handle | None = None
        self._is_due_now = False
        self._flushed = -window
        self._unanswered = 0
        self._room = asyncio.Event()
        self._breath = BREATH
        self._ahead = ahead
        self._untold = 0
        self._unheard = 0
        self.events = self.bytes = 0
        """How much of the log is this pass' own."""
        self.open_turns: set[str] = set()
        """The turns that are asked and not recorded; no message goes ahead of one of them."""

    @property
    def is_left(self) -> bool:
        """Whether the pass owns its run no more."""
        return self._writer.is_left

    @property
    def added(self) -> int:
        """How many messages the run has added to its session, those of its input among them."""
        return self.history_length - self._base

    def follow(self, context: Context) -> None:
        """Store what is added to this history in the session; the input's messages come first."""
        self._context = context

    @property
    def history_length(self) -> int:
        """How many messages the history has now."""
        return 0 if self._context is None else len(self._context.messages)

    async def publish(self, event: Event) -> None:
        """Publish what the loop yielded, unless an earlier pass has.

        Raises:
            RunLeft: When the pass owns its run no more.
        """
        if self._writer.is_left:
            raise RunLeft
        if self._outbox.put_yield(event):
            self._untold += 1
            self._flush_soon()
        self._breath -= 1
        if self._breath <= 0:
            self._breath = BREATH
            await asyncio.sleep(0)
        while self._is_too_far_ahead and not self._writer.is_left:
            self._flush()
            self._room.clear()
            await self._room.wait()

    @property
    def _is_too_far_ahead(self) -> bool:
        """Whether the loop has yielded more than may be without an answer."""
        if self._ahead is not None and self._untold + self._unheard > self._ahead:
            return True
        return self._unanswered + self._outbox.size > BURST

    def say(
        self, kind: str, data: dict[str, Any], *, turn: int | None = None, opens: str | None = None
    ) -> None:
        """Publish an event of the runtime's own; `opens` is the key of a turn that it opens.

        That a turn begins may wait for what it says.
        """
        self._outbox.put(kind, data, turn=turn, opens=opens)
        if opens is None:
            self._flush_soon()
        elif self._flush_due is None:
            self._flush_due = self._loop.call_later(self._window, self._flush_late)
            self._is_due_now = False

    def say_once(self, kind: str, data: dict[str, Any]) -> None:
        """Publish an event of the runtime's own, unless an earlier pass has at this point."""
        if self._outbox.put_once(kind, data):
            self._flush_soon()

    def note_handed(self, key: str) -> None:
        """Note, with the next script, that an answer from elsewhere has reached the loop."""
        self._outbox.put_handed(key)

    def send(self, script: str, *more: Part, is_last: bool = False) -> asyncio.Future[list[Any]]:
        """Send a script with all that waits; the last one takes every message with it."""
        with_messages = is_last or not self.open_turns
        return self._submit(script, *more, with_messages=with_messages)

    def _submit(self, script: str, *more: Part, with_messages: bool) -> asyncio.Future[list[Any]]:
        size, told = self._outbox.size, self._untold
        reply = self._writer.submit(script, self._take(with_messages=with_messages), *more)
        self._unanswered += size
        self._unheard, self._untold = self._unheard + told, 0

        def answered(_: asyncio.Future[list[Any]]) -> None:
            self._unanswered -= size
            self._unheard -= told
            self._room.set()

        reply.add_done_callback(answered)
        return reply

    def _take(self, *, with_messages: bool) -> list[Part]:
        added = []
        if with_messages and self._context is not None:
            added = self._context.messages[self._base + self._slots :]
        slot, self._slots = self._slots, self._slots + len(added)
        self._flushed = self._loop.time()
        taken = self._outbox.take(slot, [encode_message(as_message(message)) for message in added])
        self.events += cast("int", taken[0])
        self.bytes += len(cast("bytes", taken[1]))
        return taken

    def _flush_soon(self) -> None:
        is_over = self._loop.time() >= self._flushed + self._window - CLOCK
        is_now = is_over or self._outbox.size > FLUSH_SIZE
        if self._flush_due is not None:
            if self._is_due_now or not is_now:
                return
            self._flush_due.cancel()
        self._is_due_now = is_now
        if is_now:
            self._flush_due = self._loop.call_soon(self._flush)
        else:
            self._flush_due = self._loop.call_at(self._flushed + self._window, self._flush_late)

    def _flush_late(self) -> None:
        self._flush_due = None
        if not self._outbox.is_empty:
            # A script that took all may have been sent since: then this waits again.
            self._flush_soon()

    def _flush(self) -> None:
        self._cancel_flush()
        if self._outbox.is_empty:
            return
        # A message goes with a unit, never with a mere flush: its turn may not be recorded yet.
        self._submit("append_yields", with_messages=False)

    def _cancel_flush(self) -> None:
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None

    def close(self) -> None:
        """Flush nothing more."""
        self._cancel_flush()
