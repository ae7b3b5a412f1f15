"""Signs of life while something takes long: they reach whoever reads now, and are never stored."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from loops.closing import close
from loops.guard import Raised, outcome_of
from loops.tasks import Owner

from .events import PING

T = TypeVar("T")

EVERY = timedelta(seconds=15)
"""How long nothing may be shown before a sign of life is."""


async def beating(events: AsyncIterator[Any], every: timedelta = EVERY) -> AsyncIterator[Any]:
    """Yield the events, a ping whenever none has come for a while, and an error as `Raised`, last.

    The events are read in a task of their own, so that who waits for them can do something else.
    """
    owner = Owner()
    try:
        while True:
            step = owner.start(outcome_of(events.__anext__), name="reply")
            while not await _is_done(step, every):
                yield PING
            outcome = step.result()
            if isinstance(outcome, Raised):
                if not isinstance(outcome.error, StopAsyncIteration):
                    yield outcome
                return
            yield outcome
    finally:
        await owner.close()
        await close(events)


async def told(events: AsyncIterator[T]) -> AsyncIterator[T | Raised]:
    """Yield the events, and an error as `Raised`, last."""
    while True:
        outcome = await outcome_of(events.__anext__)
        if isinstance(outcome, Raised) and isinstance(outcome.error, StopAsyncIteration):
            return
        yield outcome
        if isinstance(outcome, Raised):
            return


async def waiting(
    work: Coroutine[Any, Any, T], every: timedelta = EVERY
) -> AsyncIterator[T | dict[str, Any]]:
    """Yield a ping whenever the work has taken so long again, and then what it gives.

    Raises:
        BaseException: What the work raises.
    """
    owner = Owner()
    try:
        task = owner.start(work, name="work")
        while not await _is_done(task, every):
            yield PING
        yield task.result()
    finally:
        await owner.close()


async def _is_done(task: asyncio.Task[Any], within: timedelta) -> bool:
    done, _ = await asyncio.wait({task}, timeout=within.total_seconds())
    return bool(done)
