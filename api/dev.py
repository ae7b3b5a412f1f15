"""`loopmill dev`: a server, the API and workers in one terminal, restarted when a file changes."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from watchfiles import PythonFilter, watch

from worker.embedded import start_server
from worker.settings import Settings

from .children import ChildError, Children
from .demo.farm import APP, environment_of, loopmill

LOOK_EACH = 500
"""Milliseconds after which the processes are looked at, when no file changes."""

COLOURS = {"loopmill": 1, "api": 36, "runs": 32, "tools": 35}
WIDTH = max(map(len, COLOURS))


def develop(settings: Settings, *, host: str, port: int) -> None:
    """Serve until Ctrl-C; data stay in the folder of the settings, from one start to the next.

    Files are those of the current folder and of the folders in it.

    A process that dies does not end the others: what is wrong is shown, and the next change of a
    file starts everything again.
    """
    app = settings.app or APP
    if settings.app is None:
        _say("loopmill", f"LOOPMILL_APP is not set: this is the demo's agent `triage` ({APP})")
    with _server_url(settings) as url:
        environment = environment_of(url, app, keeping=True)
        commands = {
            "api": loopmill("api", "--host", host, "--port", str(port)),
            "runs": loopmill("worker", "runs"),
            "tools": loopmill("worker", "tools"),
        }
        while True:
            with Children(_say) as children:
                for name, arguments in commands.items():
                    children.start(name, arguments, environment)
                _wait_for_change(children)


@contextmanager
def _server_url(settings: Settings) -> Generator[str]:
    if settings.redis_url is not None:
        yield settings.redis_url.get_secret_value()
        return
    server = start_server(settings.data)
    _say("loopmill", f"server {server.url}, data in {settings.data}")
    try:
        yield server.url
    finally:
        server.stop()


def _wait_for_change(children: Children) -> None:
    is_whole = True
    only = PythonFilter(extra_extensions=(".yaml", ".yml"))
    for changes in watch(
        Path.cwd(), watch_filter=only, rust_timeout=LOOK_EACH, yield_on_timeout=True
    ):
        if changes:
            names = sorted(Path(path).name for _, path in changes)
            _say("loopmill", f"restart: {', '.join(names[:3])} changed")
            return
        if is_whole:
            is_whole = _lives(children)


def _lives(children: Children) -> bool:
    try:
        children.check()
    except ChildError as error:
        _say("loopmill", f"{error}\nwaiting for a file to change")
        return False
    return True


def _say(name: str, text: str) -> None:
    colour = f"\x1b[{COLOURS[name]}m" if sys.stderr.isatty() else ""
    end = "\x1b[0m" if colour else ""
    for line in text.splitlines():
        sys.stderr.write(f"{colour}{name:>{WIDTH}} │{end} {line}\n")
