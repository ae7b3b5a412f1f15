"""Renewing claims from a thread with a connection of its own.

A job that blocks the event loop keeps its claim that way. Two things end it all the same: the
claim's own limit, and an event loop that stands still for longer than `stall`, since whoever is
stuck for ever must not keep a job for ever.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol, cast

import redis
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError

from .keys import Keys
from .queue import Claim
from .scripts import script
from .wire import Part

CHUNK = 500
"""How many claims one call renews."""

AWAY_PAUSE = 0.25
"""Seconds between attempts while the server is away."""


class Caller(Protocol):
    """Calls a script and waits for its reply."""

    def __call__(self, name: str, keys: Sequence[Part], arguments: Sequence[Part]) -> Any:
        """Return the reply of `lua/<name>.lua`."""
        ...


def script_caller(server: redis.Redis) -> Caller:
    """Return a caller over a client that belongs to the calling thread."""
    send = cast(Callable[..., Any], cast(Any, server).execute_command)

    def call(name: str, keys: Sequence[Part], arguments: Sequence[Part]) -> Any:
        called = script(name)
        rest = (len(keys), *keys, *arguments)
        try:
            return send("EVALSHA", called.sha, *rest)
        except NoScriptError:
            return send("EVAL", called.text, *rest)
        except ReadOnlyError:
            # This server lost its rank: the next call asks anew where to go.
            server.connection_pool.disconnect()
            raise

    return call


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker says of itself whenever it renews."""

    keys: Keys
    worker_id: str
    queues: tuple[str, ...]
    lease: timedelta
    record: str
    """JSON, for those who look at workers."""
    health: str
    """The text that arq's own health check reads."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a renewal told. Without an answer nothing is known."""

    answered: bool
    lost: tuple[str, ...] = ()
    """Tokens of claims that others have."""
    aborted: tuple[str, ...] = ()
    """Tokens of claims whose job somebody wants stopped."""
    after_stall: bool = False


def renew(call: Caller, worker: Registration, claims: Sequence[Claim]) -> Report:
    """Renew the claims, at most `CHUNK` a call, and register the worker.

    Raises:
        redis.exceptions.RedisError: When the server did not answer.
    """
    lost: list[str] = []
    aborted: list[str] = []
    for chunk in _chunks(claims):
        gone, unwanted = call("renew", *_request(worker, chunk))
        lost += [token.decode() for token in gone]
        aborted += [token.decode() for token in unwanted]
    return Report(answered=True, lost=tuple(lost), aborted=tuple(aborted))


def _chunks(claims: Sequence[Claim]) -> Iterator[Sequence[Claim]]:
    for start in range(0, max(1, len(claims)), CHUNK):
        yield claims[start : start + CHUNK]


def _request(worker: Registration, claims: Sequence[Claim]) -> tuple[list[Part], list[Part]]:
    lease = int(worker.lease / timedelta(milliseconds=1))
    keys: list[Part] = [worker.keys.worker(worker.worker_id), worker.keys.queues]
    for queue in worker.queues:
        keys += [worker.keys.queue(queue).queue, worker.keys.workers(queue)]
    fixed: list[Part] = [worker.worker_id, lease, lease, worker.record, worker.health]
    triples = [part for c in claims for part in (c.queue, c.job_id, c.token)]
    return keys, [*fixed, *worker.queues, *triples]


class Renewal:
    """The thread's side of it. `run` is the thread; everything else is called from the loop."""

    def __init__(
        self,
        call: Caller,
        *,
        every: timedelta,
        stall: timedelta,
        claims: Callable[[], Sequence[Claim]],
        worker: Callable[[], Registration],
    ) -> None:
        self._call = call
        self._every = every.total_seconds()
        self._stall = stall.total_seconds()
        self._claims = claims
        self._worker = worker
        self._asked = threading.Event()
        self._stopped = False
        self._ticked = time.monotonic()

    def tick(self) -> None:
        """Say that the event loop moves."""
        self._ticked = time.monotonic()

    def ask(self) -> None:
        """Have the claims renewed now."""
        self._asked.set()

    def stop(self) -> None:
        """End the thread, once it is done with what it is at."""
        self._stopped = True
        self._asked.set()

    def run(self, tell: Callable[[Report], None]) -> None:
        """Renew until stopped; `tell` gets each report, in this thread."""
        stalled = False
        while not self._stopped:
            pause = self._every
            if time.monotonic() - self._ticked > self._stall:
                stalled = True
            else:
                report = self._renew(after_stall=stalled)
                tell(report)
                if report.answered:
                    stalled = False
                else:
                    pause = min(pause, AWAY_PAUSE)
            self._asked.wait(pause)
            self._asked.clear()

    def _renew(self, *, after_stall: bool) -> Report:
        now = time.monotonic()
        claims = [c for c in self._claims() if not c.released and now < c.renew_until]
        try:
            report = renew(self._call, self._worker(), claims)
        except RedisError:
            return Report(answered=False)
        return replace(report, after_stall=after_stall)
