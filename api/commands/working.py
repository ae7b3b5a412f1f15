"""The command that serves queues."""

from __future__ import annotations

import os
import sys

import click

from api.check import is_worker_alive
from worker.__main__ import main as serve_worker
from worker.settings import Settings

from .plainly import said_plainly
from .serving_settings import serving_settings


@click.command()
@click.argument("queues", nargs=-1, metavar="[runs|tools|all|QUEUE]...")
@click.option("--concurrency", type=click.IntRange(min=1), help="Jobs at the same time.")
@click.option("--check", is_flag=True, help="Only say whether a worker of this machine is alive.")
def worker(queues: tuple[str, ...], concurrency: int | None, *, check: bool) -> None:
    """Serve queues until told to stop; without a name, all of them."""
    with said_plainly():
        if check:
            sys.exit(0 if is_worker_alive(Settings.from_env(os.environ)) else 1)
        serving_settings()
        limits = [] if concurrency is None else ["--concurrency", str(concurrency)]
        sys.exit(serve_worker([*queues, *limits]))
