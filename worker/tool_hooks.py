"""The hooks of a tool job: they are its run's, and while it waits the job holds no slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from time import monotonic

from redis.exceptions import RedisError

from loops.errors import RunLeft
from loops.hook_registry import HookRegistry
from loops.local import LocalRuntime
from loops.question import Answer, Question
from loops.tasks import Owner

from .answers import HOOK
from .calls import RunPlace
from .hook_desk import HookDesk, asked_of, lasting
from .idling import Idling
from .insist import insist
from .link import Link
from .nudges import SWEEP
from .queue import Claim
from .wire import Reply


class ToolHooks:
    """What one tool job asks the outside."""

    def __init__(self, link: Link, place: RunPlace, claim: Claim, call: str, owner: Owner) -> None:
        self._link = link
        self._place = place
        self._claim = claim
        self._call = call
        self._hooks = HookDesk(link, place, owner)
        self._idling = Idling(claim.slot, owner)
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._waits = 0
        self._until, self._since = inf, 0.0

    @property
    def seconds(self) -> float:
        """How long the job has waited."""
        return self._idling.seconds

    def hear(self, key: str, value: bytes) -> None:
        """Take an answer."""
        future = self._answers.get(key)
        if future is not None and not future.done():
            future.set_result(value)

    async def ask(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask, once for all tries of the call, and return how the hook was closed.

        Raises:
            DuplicateName: When a hook of this label is open here.
            RunLeft: When the call is not this job's any more.
        """
        name = f"{HOOK}{question.label}:{self._call}"
        key = f"{name}:{self._asked[name]}"
        self._asked[name] += 1
        with registry.live(question, partial(self._hooks.settle, key, question.hides)):
            self._answers[key] = asyncio.get_running_loop().create_future()
            try:
                await self._open(key, question)
                with self._waiting():
                    self._idling.begin_wait()
                    try:
                        return Answer.decode(await self._answer(key))
                    finally:
                        await self._idling.end_wait()
            finally:
                del self._answers[key]

    async def _open(self, key: str, question: Question) -> None:
        claim = self._claim
        reply: Reply = await insist(
            self._link,
            "open_tool_hook",
            keys=[self._place.record],
            arguments=[
                claim.queue,
                claim.job_id,
                claim.token,
                self._place.keys.owner(claim.worker_id),
                key,
                question.label,
                lasting(question.expires),
                *asked_of(question),
            ],
        )
        if reply[0] == 0:
            raise RunLeft("the call is not this job's any more")
        if reply[1] is not None:
            self.hear(key, reply[1])

    async def _answer(self, key: str) -> bytes:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP):
                    return await asyncio.shield(self._answers[key])
            # The message may have been lost.
            with suppress(RedisError):
                (found,) = await self._hooks.read(key)
                if found is not None:
                    self.hear(key, found)

    @contextmanager
    def _waiting(self) -> Generator[None]:
        """Let the claim be renewed however long the job waits."""
        if not self._waits:
            self._until, self._since = self._claim.renew_until, monotonic()
            self._claim.renew_until = inf
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._claim.renew_until = self._until + monotonic() - self._since


class ToolRuntime(LocalRuntime):
    """What a tool may ask for: all but hooks is done right here."""

    def __init__(self, hooks: ToolHooks) -> None:
        super().__init__()
        self._hooks = hooks

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask the outside for the run, and return how the hook was closed.

        Raises:
            DuplicateName: When a hook of this label is open here.
            RunLeft: When the call is not this job's any more.
        """
        return await self._hooks.ask(question, registry)
