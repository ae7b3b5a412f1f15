"""A tool's limit of time, which stands still while the tool waits for the outside."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar


class TimeLimit:
    """The limit of one try of a tool, inside of that of the tool around it."""

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._around = _limit.get(None)
        self._pauses = 0
        self._left = 0.0

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let the time stand still in the block, also that of the tools around."""
        self._pause()
        try:
            if self._around is None:
                yield
            else:
                with self._around.paused():
                    yield
        finally:
            self._go_on()

    def _pause(self) -> None:
        self._pauses += 1
        when = self._scope.when()
        if self._pauses == 1 and when is not None and not self._scope.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._scope.reschedule(None)

    def _go_on(self) -> None:
        self._pauses -= 1
        if self._pauses == 0 and self._left and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0


_limit: ContextVar[TimeLimit | None] = ContextVar("loops_time_limit", default=None)


@contextmanager
def limited(scope: asyncio.Timeout) -> Generator[None]:
    """Let what the block calls be under this limit."""
    token = _limit.set(TimeLimit(scope))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def outside() -> Generator[None]:
    """Let no limit of a tool count while the block waits for the outside."""
    limit = _limit.get(None)
    if limit is None:
        yield
        return
    with limit.paused():
        yield
