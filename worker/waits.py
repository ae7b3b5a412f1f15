"""What a pass waits for: results, hooks, sleeps, children; each reaches its loop in its turn.

All but calls may take long. They are kept beside the run, with the time at which they end; so a
run that waits for nothing else can be left, and goes on, wherever, when there is an answer.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from loops.blocked import BlockedFold
from loops.events import AgentEvent
from loops.hook_registry import HookRegistry
from loops.question import Answer, Question
from loops.wire import encode

from .answers import HOOK, SLEEP, Answers
from .hook_desk import HookDesk, asked_of, lasting
from .idling import Idling
from .journal import Journal, short_hash
from .publisher import Publisher
from .wire import Part

Turn = tuple[str, bytes, int]
"""Key, part and length of the turn from which something is started; the key may be empty."""

NO_TURN: Turn = ("", b"", 0)


class Waits:
    """What one pass waits for."""

    def __init__(
        self,
        journal: Journal,
        *,
        publisher: Publisher,
        answers: Answers,
        idling: Idling,
        hooks: HookDesk,
    ) -> None:
        self.answers = answers
        self.idling = idling
        self._journal = journal
        self._publisher = publisher
        self._hooks = hooks
        self._blocked = BlockedFold()

    async def answer(self, key: str) -> bytes:
        """Return the answer from elsewhere once its turn has come, and note its hand-over."""
        if self.answers.is_ready(key):
            value = await self.answers.wait(key)
        else:
            self.idling.begin_wait()
            try:
                value = await self.answers.wait(key)
            finally:
                await self.idling.end_wait()
        if self.answers.hand_over(key):
            self._publisher.note_handed(key)
        return value

    async def open_hook(self, question: Question, registry: HookRegistry, turn: Turn) -> Answer:
        """Ask, once for all passes, and return how the hook was closed.

        Args:
            question: What is asked.
            registry: Where the hook is found by code of this process.
            turn: The turn from whose call the question comes.

        Raises:
            DuplicateName: When a hook of this label is open.
        """
        key = self._journal.numbered(f"{HOOK}{_name(question)}")
        with registry.live(question, partial(self._hooks.settle, key, question.hides)):
            asked = (question.label, lasting(question.expires), *asked_of(question))
            await self._open("open_hook", key, *turn, *asked)
            self.follow(question.opened())
            answer = Answer.decode(await self.answer(key))
        closed = answer.event(question)
        if closed is not None:
            self.follow(closed)
        return answer

    async def sleep(self, after: str, duration: timedelta) -> None:
        """Wait, once for all passes; `after` names the place in the run."""
        key = self._journal.numbered(f"{SLEEP}{after}")
        await self._open("open_hook", key, *NO_TURN, "", lasting(duration), b"", b"", b"")
        await self.answer(key)

    async def for_child(self, key: str, *planned: Part) -> bytes:
        """Start a child, once for all passes, and return what is told of its end."""
        await self._open("open_child", key, *planned)
        return await self.answer(key)

    async def _open(self, script: str, key: str, *asked: Part) -> None:
        # A run that is just about to ask does not wait yet.
        self.idling.busy(+1)
        try:
            reply = await self._publisher.send(script, key, *asked)
        finally:
            self.idling.busy(-1)
        if reply[2] is not None:
            self.answers.arrive(key, reply[2])

    def follow(self, event: AgentEvent) -> None:
        """Take what happens in the run; tell, once, that nothing but hooks is waited for."""
        blocked = self._blocked.feed(event)
        if blocked is not None:
            self._publisher.say_once(*encode(blocked))


def _name(question: Question) -> str:
    """Return what a question is known by: its label, or the call and what it is bound to."""
    if not question.bound_to:
        return question.label
    asker = question.call.key if question.call is not None else ""
    return f"{asker or question.label}:{short_hash(question.bound_to)}"
