"""The command that shows all of it on a real job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from api.demo.play import play
from worker.settings import Settings

from .plainly import said_plainly


@click.command()
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
