"""The `loopmill` command: what can be typed, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from loops.errors import AgentError, SetupError
from worker.__main__ import main as serve_worker
from worker.configuration import read_configuration
from worker.embedded import ServerStartError
from worker.run_record import RunStatus
from worker.settings import Settings, SettingsError

from .check import check as check_configuration
from .check import is_worker_alive
from .children import ChildError
from .client import ApiError, Client
from .demo.play import play
from .dev import Place, check_port, develop
from .listing import list_runs
from .loading import load
from .server import check_address, serve_api
from .telling import follow, show_start

Function = TypeVar("Function", bound=Callable[..., Any])

URL = "http://127.0.0.1:8000"

EXPECTED = (AgentError, ApiError, ChildError, ServerStartError, SettingsError, OSError)
"""What may go wrong without a fault of ours: said in a line, not in a traceback."""

STATUS = click.Choice([status.value for status in RunStatus])

WRONGLY_SET_UP = 2
INTERRUPTED = 130
READER_GONE = 141


@contextmanager
def said_plainly() -> Generator[None]:
    """Say what went wrong in a line, and exit as programs do.

    1 is a failure, 2 a wrong set-up, which only a person mends; 130 is Ctrl-C.
    """
    try:
        yield
    except BrokenPipeError:
        # Whoever read us has read enough; nothing may be written any more, not even at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)
    except EXPECTED as error:
        sys.stderr.write(f"loopmill: {error}\n")
        sys.exit(WRONGLY_SET_UP if isinstance(error, SetupError | SettingsError) else 1)
    except KeyboardInterrupt:
        sys.stderr.write("\nloopmill: interrupted\n")
        sys.exit(INTERRUPTED)


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


def serving_settings() -> Settings:
    """Return the settings of a process that serves.

    Raises:
        SettingsError: When a setting or the configuration file cannot be used, or no server is
            named.
        SetupError: When the app cannot be imported.
    """
    settings = Settings.from_env(os.environ)
    if settings.redis_url is None:
        raise SettingsError(
            "LOOPMILL_REDIS_URL is not set: name a server, or use `loopmill dev`, which starts one"
        )
    if settings.config is not None:
        read_configuration(settings.config)
    problem = None if settings.app is None else load(settings.app).problem
    if problem is not None:
        raise SetupError(problem)
    return settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="loopmill")
def command() -> None:
    """Agent loops as queue jobs: POST a run, watch its events, scale the workers."""


@command.command()
@click.option(
    "--path",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of log files; without it, sample logs are made.",
)
@click.option("--model", help="Ask a real one: anthropic/…, openai/…; without it, it is scripted.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
def demo(path: Path | None, model: str | None, *, as_json: bool) -> None:
    """Watch an agent triage a folder of logs, with real processes on an embedded server."""
    with said_plainly():
        settings = Settings.from_env(os.environ)
        outcome = play(Console(stderr=as_json), settings.data, path, model=model)
        if as_json:
            click.echo(outcome.as_json())
        sys.exit(0 if outcome.story.status == "completed" else 1)


@command.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True)
@click.option("--no-reload", "stays", is_flag=True, help="Do not look for changed files.")
def dev(host: str, port: int, *, stays: bool) -> None:
    """Start a server, the API and workers; keep them alive, and up to date with your files."""
    with said_plainly():
        develop(Settings.from_env(os.environ), Place(host, port), reloads=not stays)


@command.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, help="0 takes a free one.")
def api(host: str, port: int) -> None:
    """Serve the HTTP API."""
    with said_plainly():
        settings = serving_settings()
        check_address(settings, host)
        check_port(Place(host, port))
        sys.exit(serve_api(settings, host=host, port=port))


@command.command()
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


@command.command()
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


@command.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", default=0, help="Show the events past this number.")
@where
def tail(run_id: str, after: int, url: str, key: str | None) -> None:
    """Show a run from its first event to its last."""
    with said_plainly(), Client(url, key) as client:
        sys.exit(follow(client, run_id, after=after))


@command.command()
@click.argument("run_id", metavar="RUN")
@where
def cancel(run_id: str, url: str, key: str | None) -> None:
    """Cancel a run."""
    with said_plainly(), Client(url, key) as client:
        receipt = client.cancel(run_id)
        click.echo(f"run {run_id}: {receipt['status']}")


@command.command()
@click.option("--status", type=STATUS, help="Only runs that stand so.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=0))
@where
def runs(status: str | None, limit: int, url: str, key: str | None) -> None:
    """List runs, newest first, and count all of them by status."""
    with said_plainly(), Client(url, key) as client:
        list_runs(client, status=status, limit=limit, say=click.echo)


@command.command()
def check() -> None:
    """Say what the configuration means, and what is wrong with it."""
    with said_plainly():
        sys.exit(check_configuration(os.environ, click.echo))
