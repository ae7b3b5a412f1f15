"""The commands that ask a running API."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from api.client import Client
from api.listing import list_runs
from api.telling import follow, show_start
from worker.run_record import RunStatus

from .plainly import said_plainly

Function = TypeVar("Function", bound=Callable[..., Any])

URL = "http://127.0.0.1:8000"

STATUS = click.Choice([status.value for status in RunStatus])


def where(function: Function) -> Function:
    """Give a command the options that say which API it talks to."""
    url = click.option(
        "--url",
        default=URL,
        envvar="LOOPMILL_URL",
        show_default=True,
        show_envvar=True,
        help="Where the API is.",
    )
    key = click.option(
        "--key", envvar="LOOPMILL_KEY", show_envvar=True, help="A key that the API accepts."
    )
    return url(key(function))


@click.command()
@click.argument("agent")
@click.argument("text")
@click.option("--session", help="A session to carry on.")
@where
def run(agent: str, text: str, session: str | None, url: str, key: str | None) -> None:
    """Start a run of AGENT with TEXT, and show it as it goes on."""
    with said_plainly(), Client(url, key) as client:
        started = client.start(agent, text, session_id=session)
        show_start(started)
        sys.exit(follow(client, started["id"]))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", default=0, help="Show the events past this number.")
@where
def tail(run_id: str, after: int, url: str, key: str | None) -> None:
    """Show a run from its first event to its last."""
    with said_plainly(), Client(url, key) as client:
        sys.exit(follow(client, run_id, after=after))


@click.command()
@click.argument("run_id", metavar="RUN")
@where
def cancel(run_id: str, url: str, key: str | None) -> None:
    """Cancel a run."""
    with said_plainly(), Client(url, key) as client:
        receipt = client.cancel(run_id)
        click.echo(f"run {run_id}: {receipt['status']}")


@click.command()
@click.option("--status", type=STATUS, help="Only runs that stand so.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=0))
@where
def runs(status: str | None, limit: int, url: str, key: str | None) -> None:
    """List runs, newest first, and count all of them by status."""
    with said_plainly(), Client(url, key) as client:
        list_runs(client, status=status, limit=limit, say=click.echo)
