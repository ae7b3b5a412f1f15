"""What a process works with: the one bundle, and the one place that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .event_log import EventLog
from .hooks import Hooks
from .keys import Keys
from .link import Link, open_link
from .queue import QueueClient
from .runs import Runs
from .sessions import Sessions
from .settings import Settings, SettingsError


@dataclass(frozen=True, slots=True)
class Resources:
    """What both API and workers use."""

    settings: Settings
    keys: Keys
    link: Link
    runs: Runs
    sessions: Sessions
    hooks: Hooks
    log: EventLog
    queue: QueueClient


def resources_over(link: Link, settings: Settings) -> Resources:
    """Return the resources of a link that is open."""
    keys = Keys(settings.namespace)
    runs = Runs(link, keys, settings)
    return Resources(
        settings=settings,
        keys=keys,
        link=link,
        runs=runs,
        sessions=Sessions(link, keys, runs),
        hooks=Hooks(link, keys),
        log=EventLog(link, keys),
        queue=QueueClient(link, keys),
    )


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncGenerator[Resources]:
    """Open the resources; no connection is made before the first command.

    Raises:
        SettingsError: When no server is named.
    """
    if settings.redis_url is None:
        raise SettingsError(
            "LOOPMILL_REDIS_URL is not set: name a server, or use `loopmill dev`, which starts one"
        )
    async with open_link(settings.redis_url.get_secret_value()) as link:
        yield resources_over(link, settings)
