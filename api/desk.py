"""What a request works with: the stores, the hub, the agents, and whose request it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from starlette.requests import Request

from loops.app import App
from loops.errors import UnknownRun, UnknownSession
from worker.keys import NAME
from worker.resources import Resources
from worker.run_record import RunRecord

from .auth import Caller, Keyring
from .errors import RedisAway
from .frames import Source
from .hub import Hub
from .streams import EventStream, Feed, Form, Pace, Traffic
from .watch import Watch

T = TypeVar("T")

PROMPTLY = timedelta(seconds=1)
"""How long a request waits for an answer of the stores."""


@dataclass(frozen=True, slots=True)
class Office:
    """What all requests of a process share."""

    resources: Resources
    hub: Hub
    app: App
    keyring: Keyring
    watch: Watch = field(default_factory=Watch)
    pace: Pace = field(default_factory=Pace)
    traffic: Traffic = field(default_factory=Traffic)

    def stream(self, feed: AbstractAsyncContextManager[Feed], form: Form) -> EventStream:
        """Return a response that relays the feed."""
        return EventStream(feed, form, pace=self.pace, traffic=self.traffic)


@dataclass(frozen=True, slots=True)
class Desk:
    """What one request works with."""

    office: Office
    caller: Caller

    @property
    def tenant(self) -> str:
        """Whose runs and sessions the request sees."""
        return self.caller.tenant

    async def run(self, run_id: str) -> RunRecord:
        """Return a run of the caller's.

        Raises:
            UnknownRun: The caller has no such run, whoever else may.
        """
        if NAME.fullmatch(run_id) is None:
            raise UnknownRun("this is no id of a run")
        return await promptly(self.office.resources.runs.load(self.tenant, run_id))

    def source(self, run_id: str, session_id: str) -> Source:
        """Return where the events of a run of the caller's come from."""
        return Source(self.office.resources.keys.run(self.tenant, run_id), run_id, session_id)


def desk_of(request: Request) -> Desk:
    """Return what the request works with."""
    return Desk(request.app.state.office, request.state.caller)


def checked_session_id(session_id: str) -> str:
    """Return the id, if it can be one.

    Raises:
        UnknownSession: It cannot.
    """
    if NAME.fullmatch(session_id) is None:
        raise UnknownSession("this is no id of a session")
    return session_id


async def promptly(answer: Awaitable[T]) -> T:
    """Return the stores' answer, which a request does not wait for at length.

    Raises:
        RedisAway: There was none in time.
    """
    try:
        async with asyncio.timeout(PROMPTLY.total_seconds()):
            return await answer
    except TimeoutError as error:
        raise RedisAway("the server's store does not answer; try again later") from error
