"""A run's handle on its session: what was said, what of it the model sees, and what is kept.

On workers the session is the one that HTTP shows, and the run's history is its end; in one process
it is kept in memory or in files, or nowhere where it has no id. What is said is kept before any
model is asked; nothing that is kept is ever changed.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from loops.blocks import Raw
from loops.context import Context
from loops.history import Issue, inspect, repair
from loops.jsonable import jsonable
from loops.messages import Messages

from .backing import Backing, backing_of, front_of
from .compact import Summary, summarise, told
from .cutting import cut, is_said
from .marker import Marker, view
from .plain import said, to_message, to_raw
from .provider import Provider
from .stubs import freed
from .turn import Turn

INTERRUPTED = (
    "Error: the run was interrupted before this call had its result. It may or may not have had "
    "its effect: look before you repeat it."
)
"""What a call without a result is answered."""

KEEP = 20_000
"""How many tokens at the end of a session are kept word for word when it is summed up."""

SUMMARY = 8_192
"""How many tokens a summary may have."""


class Session:
    """The session of one run. Open it by `Session.open(context)`."""

    def __init__(
        self, context: Context, backing: Backing, before: Marker, *, is_asked: bool
    ) -> None:
        self.chat_id = context.chat_id
        self._backing = backing
        front = front_of(context)
        self._has_request = is_asked
        held = context.messages[front : -1 if self._has_request else None]
        self.messages: list[Raw] = [to_raw(message) for message in held]
        """What was said, oldest first, as plain dicts; what a loop appends is kept by the next
        `checkpoint`."""
        self.summary = before.summary
        """What stands for the messages before `first_kept`; None for nothing."""
        self.first_kept = 0
        self.cleared = max(0, before.cleared - front)
        """Up to where old results are shown as cleared."""
        self.limit: int | None = None
        """How many tokens the window of the model `limit_of` has, where a run has found out."""
        self.limit_of = ""
        self._context = context
        self._front = front
        self._saved = len(self.messages)
        self._turns: list[Turn] = []
        self._replies: list[Raw] = []
        self._keeping = asyncio.Lock()
        self.issues: list[Issue] = [
            each for each in inspect(said(self.messages)) if each.kind != "repeated_id"
        ]
        """What is wrong with what was kept; it is mended in what the model sees, and nowhere
        else."""

    @classmethod
    async def open(cls, context: Context) -> "Session":
        """Return the run's session; a run has one, however often it is opened."""
        if isinstance(context.handle, cls):
            return context.handle
        backing = backing_of(context)
        # What a person said last in an earlier run is no request of this one.
        is_asked = bool(context.messages) and context.messages[-1].role == "user"
        await backing.load()
        marker = Marker.decode(dict(context.marker or {}))
        session = cls(context, backing, marker, is_asked=is_asked)
        session.limit = (context.marker or {}).get("limit")
        session.limit_of = str((context.marker or {}).get("limit_of", ""))
        context.handle = session
        return session

    @property
    def request(self) -> Raw | None:
        """What was said to the run and is not part of the session yet."""
        return to_raw(self._context.messages[-1]) if self._has_request else None

    async def add_user(
        self, content: str | list[Raw], *, internal: bool = False, **kept: Any
    ) -> None:
        """Add what a person says, and return when it is kept.

        Args:
            content: Text, or blocks.
            internal: Whether it is the loop's own word, which no reader is shown.
            kept: What is kept beside it: `attachments`, `selection`, `approvals`, `declined` …
        """
        beside = {name: jsonable(value) for name, value in kept.items() if value}
        if internal:
            beside["internal"] = True
        self.messages.append({"role": "user", "content": content, **beside})
        await self.checkpoint()

    def add_turn(self, turn: Turn, **kept: Any) -> None:
        """Add a reply; a reply that was added already is not added again."""
        if any(each is turn for each in self._turns):
            return
        self._turns.append(turn)
        if turn.content:
            reply: Raw = {"role": "assistant", "content": list(turn.content), **kept}
            self._replies.append(reply)
            self.messages.append(reply)

    def add_partial(self, text: str) -> None:
        """Add a reply that broke off, as far as it was shown."""
        if text.strip():
            said_so_far = [{"type": "text", "text": f"{text}\n\n[…]"}]
            self.messages.append({"role": "assistant", "content": said_so_far})

    def context(self) -> list[Raw]:
        """Return what the model should see: valid whatever was cut, cancelled or lost."""
        marker = Marker(self.summary, self.first_kept, self.cleared)
        shown = Messages(said(view(self.messages, marker)))
        return [message.raw() for message in repair(shown, unanswered=INTERRUPTED)]

    @property
    def is_kept(self) -> bool:
        """Whether all that was added is kept."""
        return self._saved == len(self.messages)

    async def checkpoint(self) -> None:
        """Return when all that was added is kept.

        Raises:
            SessionConflict: When somebody else has added to the session meanwhile.
        """
        # Two at a time would keep the same messages, and count them twice.
        async with self._keeping:
            self._take_in()
            self._drop_twins()
            tail = self.messages[self._saved :]
            await self._backing.append(self._saved, [to_message(each) for each in tail])
            self._has_request = self._has_request and not tail
            self._saved += len(tail)

    def _drop_twins(self) -> None:
        """Drop a reply that stands directly after itself: it was added, and yielded too."""
        for at in range(len(self.messages) - 1, max(self._saved, 1) - 1, -1):
            one, other = self.messages[at - 1], self.messages[at]
            is_reply = one["role"] == other["role"] == "assistant"
            is_told_twice = self._is_of_turn(one) != self._is_of_turn(other)
            if is_reply and is_told_twice and one["content"] == other["content"]:
                del self.messages[at]

    def _is_of_turn(self, message: Raw) -> bool:
        return any(each is message for each in self._replies)

    def _take_in(self) -> None:
        """Let the session have what the run's history has and it has not.

        That is what was said to the run, when a loop goes on without adding it, and what a loop
        adds by other means.
        """
        tail = self.messages[self._saved :]
        history = self._context.messages[self._front + self._saved :]
        if self._has_request and (not tail or is_said(tail[0])):
            # It is still to be added, or its place is taken by what is added for it.
            history = history[1:]
        if history == [to_message(each) for each in tail[: len(history)]]:
            # A checkpoint before this one was broken off: it is the same that stands in both.
            return
        self.messages[self._saved : self._saved] = [to_raw(message) for message in history]

    def rollback(self) -> None:
        """Drop what was added since the last `checkpoint`; what a person said stays."""
        del self.messages[self._saved :]

    async def clear(self, keep: int, enough: int) -> bool:
        """Show old results of tools as cleared, if that frees enough; say whether it does.

        Args:
            keep: How many tokens at the end stay as they are.
            enough: How many tokens it must free.
        """
        place = cut(self.messages, keep, self.first_kept)
        before = max(self.first_kept, self.cleared)
        if place is None or place <= before or freed(self.messages, before, place) < enough:
            return False
        self.cleared = place
        await self._mark()
        return True

    async def compact(
        self,
        provider: Provider,
        keep: int = KEEP,
        max_tokens: int = SUMMARY,
        request: Mapping[str, Any] | None = None,
        *,
        window: int | None = None,
    ) -> Summary | None:
        """Let a summary stand for the older messages; None where there is nothing to cut.

        A summary that fails fails nothing: a sentence stands in its place.

        Args:
            provider: Who writes it.
            keep: How many tokens at the end stay as they are.
            max_tokens: How long it may be.
            request: The rest of the request that the loop would send next.
            window: How many tokens the model sees; the older part is told as far as it fits.
        """
        place = cut(self.messages, keep, self.first_kept)
        if place is None:
            return None
        marker = Marker(self.summary, self.first_kept, self.cleared)
        old = view(self.messages[:place], marker.within(place))
        written = await summarise(
            provider, old, max_tokens=max_tokens, request=request, window=window
        )
        self.summary = told(written, old)
        self.first_kept, self.cleared = place, max(self.cleared, place)
        await self._mark()
        return written

    async def learn(self, limit: int, model: str) -> None:
        """Keep how many tokens a model's window has in truth, for later runs too."""
        self.limit, self.limit_of = limit, model
        await self._mark()

    async def _mark(self) -> None:
        await self.checkpoint()
        marker = Marker(self.summary, self.first_kept, self.cleared)
        await self._backing.mark(
            {
                **marker.encode(),
                "limit": self.limit,
                "limit_of": self.limit_of,
                "front": view([], Marker(self.summary)),
            }
        )
