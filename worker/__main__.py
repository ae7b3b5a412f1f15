"""`python -m worker [runs|tools|all|QUEUE…]`: serve queues until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from asyncio import Task
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from arq import cron

from loops.agentic import GATEWAY, Gateway
from loops.app import App
from loops.errors import SetupError
from loops.find import find_app
from loops.gateway.settings import GatewaySettings
from loops.model import configured_model
from loops.providers.exchange import new_client
from loops.providers.shipped import sharing
from loops.tasks import Owner

from .arq_worker import RUNS, QueueWorker
from .configuration import Configuration, configured
from .event_loop import run
from .functions import Work
from .gateway_callbacks import gateway_callbacks
from .jobs import JOBS, settle_dead
from .new_run import NEEDED_QUEUES
from .resources import Resources, open_resources
from .settings import Settings, SettingsError
from .upkeep import keep_up
from .working import working

ALL = NEEDED_QUEUES
"""What `all` stands for."""

CONCURRENCY = 20
"""How many jobs of a kind hold a slot at the same time, unless told otherwise."""


def main(arguments: list[str] | None = None) -> int:
    """Serve queues until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(prog="loopmill worker", description=serve_worker.__doc__)
    parser.add_argument("queues", nargs="*", default=["all"], metavar="runs|tools|all|QUEUE")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    # A line for each request of a model, with its address, tells nobody anything.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = Settings.from_env(os.environ)
        return run(serve_worker(settings, given.queues, concurrency=given.concurrency))
    except (SettingsError, SetupError) as error:
        sys.stderr.write(f"loopmill worker: {error}\n")
        return 2


async def serve_worker(settings: Settings, queues: Sequence[str], *, concurrency: int) -> int:
    """Serve runs, tools, or both, in slots of their own, until the process is told to stop."""
    app = load_app(settings)
    groups = grouped(queues)
    owner = Owner()
    async with open_resources(settings) as resources, AsyncExitStack() as stack:
        configuration = await stack.enter_async_context(asking(settings, groups))
        app = app.beside(GATEWAY, gateway_of(app, configuration.gateway(settings.config)))
        workers = [
            await stack.enter_async_context(_worker(resources, app, group, concurrency))
            for group in groups
        ]
        for told in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(told, _stop, workers)
        serving = [owner.start(worker.main(), name="worker") for worker in workers]
        names = ", ".join(name for group in groups for name in group)
        sys.stdout.write(
            f"loopmill worker ready: queues {names} (concurrency {concurrency}), "
            f"pid {os.getpid()}\n"
        )
        sys.stdout.flush()
        await end_together(workers, serving)
    return 0


async def end_together(workers: Sequence[QueueWorker], serving: Sequence[Task[None]]) -> None:
    """Wait for the ends of all workers; one that fails takes the others with it.

    Raises:
        Exception: What the first of them raised.
    """
    await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
    # Whoever was told to stop already would be hurried by a second word.
    _stop([worker for worker in workers if not worker.lifecycle.draining])
    await asyncio.wait(serving)
    for served in serving:
        served.result()


def _stop(workers: Sequence[QueueWorker]) -> None:
    for worker in workers:
        worker.stop()


def load_app(settings: Settings) -> App:
    """Return the app that the settings name; an empty one where they name a configuration alone.

    Raises:
        SetupError: When it is not named, cannot be found, or is no `App`.
    """
    if settings.app is None and settings.config is not None:
        return App()
    if settings.app is None:
        raise SetupError("LOOPMILL_APP is not set: name your app as 'module:name'")
    return find_app(settings.app)


def gateway_of(app: App, settings: GatewaySettings) -> Gateway:
    """Return the gateway: its callbacks are those of the module's list, of the app, of the file.

    Raises:
        SetupError: When one of them would never run.
    """
    return Gateway(configured_model, gateway_callbacks(app, settings), settings)


@asynccontextmanager
async def asking(
    settings: Settings, groups: Sequence[tuple[str, ...]]
) -> AsyncGenerator[Configuration]:
    """Let models be asked: those that are configured too, all over one client's connections.

    Raises:
        SettingsError: When the configuration file cannot be used.
        SetupError: When a worker of runs could not ask a model that is configured.
    """
    with configured(settings, os.environ) as configuration:
        if any(name.partition(":")[0] == RUNS for group in groups for name in group):
            configuration.check(os.environ)
        async with new_client() as client:
            with sharing(client):
                yield configuration


def grouped(queues: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the queues of loops and those of tools: they never share slots."""
    named = [name for queue in queues for name in _names(queue)]
    runs = tuple(name for name in named if name.partition(":")[0] == RUNS)
    others = tuple(name for name in named if name.partition(":")[0] != RUNS)
    return [group for group in (runs, others) if group]


def _names(queue: str) -> tuple[str, ...]:
    if queue == "all":
        return ALL
    return ("runs", "runs:batch") if queue == "runs" else (queue,)


@asynccontextmanager
async def _worker(
    resources: Resources, app: App, queues: tuple[str, ...], concurrency: int
) -> AsyncGenerator[QueueWorker]:
    ctx: dict[str, Any] = {}
    upkeep = cron(keep_up, name=f"{resources.keys.namespace}/upkeep", second=0)
    work = Work(JOBS, queues, concurrency, cron_jobs=[upkeep], on_dead=settle_dead, ctx=ctx)
    worker = QueueWorker(resources.link, resources.keys, resources.settings, work)
    async with working(resources, app=app, worker_id=worker.worker_id) as mine:
        worker.ctx["resources"] = mine
        yield worker


if __name__ == "__main__":
    sys.exit(main())
