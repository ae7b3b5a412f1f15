"""The one file that makes tasks and threads; each task has an owner, which ends it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from .guard import Raised, outcome_of_call

T = TypeVar("T")


GIVEN_UP = 16
"""How many who wait no longer a signal may remember."""


class Signal:
    """A call to whoever is waiting at this moment; it is not kept for those who come later."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Return what waits for the next call; a future, since each event of a loop waits here."""
        if len(self._waiting) > GIVEN_UP:
            self._waiting = [future for future in self._waiting if not future.done()]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def call(self) -> None:
        """Wake up all who are waiting."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Owner:
    """The tasks of one object, in the order in which they were made."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Make a task of the work and own it until it is done."""
        task = asyncio.create_task(work, name=name)  # noqa: TID251 - the one place
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    async def join(self) -> None:
        """Wait until all tasks are done; their results and errors stay theirs."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def close(self) -> None:
        """Cancel all tasks, the oldest first, and wait until they are done.

        Each is cancelled once. A task that takes long to end is waited for, so that nothing of it
        outlives its owner.
        """
        for task in list(self._tasks):
            task.cancel()
        await self.join()

    async def close_within(self, seconds: float) -> bool:
        """Cancel all tasks, wait for them for a while, and say whether all of them are done.

        A task that will not end is left to itself: its owner has taken care that it can do no harm.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        return not self._tasks


async def in_thread(function: Callable[[], T], *, name: str) -> T | Raised:
    """Run a function in a thread of its own, and return what it gives or raises.

    When the waiting is cancelled the thread goes on: nothing can stop it. A thread a call, since
    in a pool those that nobody waits for any more would hold up the others.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T | Raised] = loop.create_future()
    work = partial(outcome_of_call, partial(copy_context().run, function))

    def settle(value: T | Raised) -> None:
        if not outcome.done():
            outcome.set_result(value)

    def run() -> None:
        value = work()
        # When the event loop is closed there is nobody left who waits for the value.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome


async def to_its_end(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Return what the work gives; a caller that is cancelled meanwhile leaves when it is done."""
    owner = Owner()
    task = owner.start(work, name=name)
    try:
        return await asyncio.shield(task)
    finally:
        if not task.done():
            task.add_done_callback(overlook)
            await asyncio.wait({task})


def overlook(future: asyncio.Future[Any]) -> None:
    """Look at the error of a future that is done, so that Python does not report it as lost."""
    if not future.cancelled():
        future.exception()
