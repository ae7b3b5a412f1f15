"""The commands that serve the API, or look at what it would serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from api.check import check as check_everything
from api.check import check_file
from api.dev import Place, check_port, develop
from api.server import check_address, serve_api
from worker.settings import Settings

from .plainly import said_plainly
from .serving_settings import serving_settings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True)
@click.option("--no-reload", "stays", is_flag=True, help="Do not look for changed files.")
def dev(host: str, port: int, *, stays: bool) -> None:
    """Start a server, the API and workers; keep them alive, and up to date with your files."""
    with said_plainly():
        develop(Settings.from_env(os.environ), Place(host, port), reloads=not stays)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, help="0 takes a free one.")
def api(host: str, port: int) -> None:
    """Serve the HTTP API."""
    with said_plainly():
        settings = serving_settings()
        check_address(settings, host)
        check_port(Place(host, port))
        sys.exit(serve_api(settings, host=host, port=port))


@click.command()
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def check(file: Path | None) -> None:
    """Say what the configuration means, and what is wrong with it; or what FILE alone does."""
    with said_plainly():
        if file is not None:
            sys.exit(check_file(file, os.environ, click.echo))
        sys.exit(check_everything(os.environ, click.echo))
