"""What a worker serves: its queues, and the functions that it calls for their jobs."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from arq.cron import CronJob
from arq.worker import Function, func

from .payloads import JSON
from .queue import Claim

Hook = Callable[[dict[str, Any]], Awaitable[object]]
"""Gets a worker's `ctx`."""

OnDead = Callable[[dict[str, Any], Claim, str], Awaitable[object]]
"""Settles what a job stood for that will never run: `bad_payload`, `unknown_function`,
`worker_lost` or `max_tries`. It returns `RELEASED`, or None when the job is not its business."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker serves."""

    functions: Sequence[Any]
    """Coroutine functions `async def f(ctx, …)`, or what `job_function` or arq's `func` made."""
    queues: tuple[str, ...]
    """Names, the most urgent first."""
    concurrency: int = 10
    """How many jobs hold a slot at the same time."""
    cron_jobs: Sequence[CronJob] = ()
    on_startup: Hook | None = None
    """Called before the first claim, to put `resources` into `ctx`; its error ends the worker."""
    on_shutdown: Hook | None = None
    on_dead: OnDead | None = None
    ctx: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class JobFunction(Function):
    """arq's description of a function, and who settles its jobs."""

    settles_itself: bool = False
    """Whether the function gives its claim up by scripts of its own, and so ends, parks or hands
    back what the job stands for. Its worker then sets no time limit, counts no tries, and never
    takes an error for the end of the job: it lets the claim lapse."""


def job_function(
    coroutine: Any,
    *,
    name: str | None = None,
    timeout: timedelta | None = None,
    keep_result: timedelta | None = None,
    max_tries: int | None = None,
    settles_itself: bool = False,
) -> JobFunction:
    """Describe a coroutine function `async def f(ctx, …)` for a worker.

    Raises:
        RuntimeError: When it is not a coroutine function.
    """
    plain = func(
        coroutine, name=name, timeout=timeout, keep_result=keep_result, max_tries=max_tries
    )
    return JobFunction(**vars(plain), settles_itself=settles_itself)


SHAPES = 1024
"""How many shapes of calls that fit are remembered: a stranger's payloads must not fill memory."""


class Signatures:
    """Tells whether a job's arguments fit its function, without calling it."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, int, frozenset[str]]] = set()

    def fit(self, coroutine: Any, arguments: Sequence[JSON], named: dict[str, JSON]) -> bool:
        """Say whether the coroutine function can be called with `ctx` and these."""
        shape = coroutine, len(arguments), frozenset(named)
        if shape in self._known:
            return True
        fits = _fits(coroutine, arguments, named)
        if fits and len(self._known) < SHAPES:
            self._known.add(shape)
        return fits


def _fits(coroutine: Any, arguments: Sequence[JSON], named: dict[str, JSON]) -> bool:
    try:
        inspect.signature(coroutine).bind(None, *arguments, **named)
    except TypeError:
        return False
    return True
