"""The one place where whatever users' code raises is caught: loops, tools, callbacks.

A cancellation from outside and `RunLeft` are never caught: whoever sent them waits for the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from .errors import RunLeft
from .jsonable import cut_text, fit_text

T = TypeVar("T")

MAX_ERROR_TEXT = 4096
"""How many characters of an error a model or a record is told."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What users' code raised instead of an answer."""

    error: BaseException

    @property
    def text(self) -> str:
        """The error in one bounded line: its type and its message."""
        return describe(self.error)


async def outcome_of(
    work: Callable[[], Awaitable[T]], *, task: asyncio.Task[object] | None = None
) -> T | Raised:
    """Return what the work gives or raises, whatever that is.

    Who has the current task at hand gives it: looking it up takes longer than short work.

    A `CancelledError` that the work raises by itself, though nobody cancelled the task, is an error
    like any other; so are `SystemExit` and `KeyboardInterrupt`, which would stop the event loop.

    Raises:
        CancelledError: When the task was cancelled from outside.
        RunLeft: When the work was refused by a port.
    """
    task = task or asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await work()
    except RunLeft:
        raise
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > before:
            raise
        return Raised(error)
    except BaseException as error:  # noqa: BLE001 - this file is the place for it
        return Raised(error)


class Seat:
    """A place where one task waits, from which another task may send it away."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._left: asyncio.Future[None] | None = None

    async def wait(self, work: Callable[[], Awaitable[T]]) -> T | Raised:
        """Return what the work gives or raises, as `outcome_of` does.

        Raises:
            StopAsyncIteration: When the task was sent away.
        """
        self._loop = self._loop or asyncio.get_running_loop()
        task = self._task = asyncio.current_task(self._loop)
        try:
            return await outcome_of(work, task=task)
        except asyncio.CancelledError:
            if self._left is None or task is None or task.uncancel() > 0:
                raise
            raise StopAsyncIteration from None
        finally:
            self._task = None
            if self._left is not None:
                self._left.set_result(None)

    async def clear(self) -> None:
        """Send the waiting task away and wait until it has gone; no-op if nobody else waits."""
        if self._task is None or self._task is asyncio.current_task():
            return
        self._left = asyncio.get_running_loop().create_future()
        self._task.cancel()
        await self._left
        self._left = None


def outcome_of_call(function: Callable[[], T]) -> T | Raised:
    """Return what a plain function gives or raises, whatever that is; for use in a thread."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - this file is the place for it
        return Raised(error)


@contextmanager
def renaming(failure_of: Callable[[Exception], Exception]) -> Generator[None]:
    """Let what users' code raises in the block leave it as another error, or as itself."""
    try:
        yield
    except Exception as error:
        failure = failure_of(error)
        if failure is error:
            raise
        raise failure from error


def describe(error: BaseException) -> str:
    """Return the error as `TypeName: message`, bounded; a group of one error is that error."""
    inner = unwrapped(error)
    message = outcome_of_call(lambda: str(inner))
    shown = "(its message cannot be shown)" if isinstance(message, Raised) else message
    name = type(inner).__name__
    return cut_text(fit_text(f"{name}: {shown}" if shown else name), MAX_ERROR_TEXT)


def unwrapped(error: BaseException) -> BaseException:
    """Return the one error inside of nested groups of one, or the error itself.

    A `StopIteration` that left a coroutine comes as a `RuntimeError` of Python's own; it is
    unwrapped too.
    """
    while isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        if len(members) != 1:
            return cast("BaseException", error)
        error = members[0]
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, _STOPS):
        return error.__cause__
    return error


_STOPS = (StopIteration, StopAsyncIteration)
