"""`loopmill dev`: a server, the API and workers in one terminal, kept alive.

All of them are started again when a file changes that the app has imported.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from loops.errors import SetupError
from worker.embedded import start_server
from worker.settings import PREFIX, Settings
from worker.sharing import Use, exclusively

from .changes import Changes, modules_near
from .children import Children
from .demo.farm import APP, environment_of, loopmill
from .keeping import Keeper
from .loading import load_elsewhere
from .server import check_address, listen

LOOK_EACH = timedelta(milliseconds=200)
"""How often processes and files are looked at."""

COLOURS = {"loopmill": 1, "api": 36, "runs": 32, "tools": 35}
WIDTH = max(map(len, COLOURS))


@dataclass(frozen=True, slots=True)
class Place:
    """Where the API is to be served."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The API's address, as one types it."""
        return f"http://{self.host}:{self.port}"


def develop(settings: Settings, place: Place, *, reloads: bool = True) -> None:
    """Serve until Ctrl-C; data stay in the folder of the settings, from one start to the next.

    A process that was ready and dies is started again. When a file changes that the app has
    imported, everything is. An app that is broken is waited for, unless nothing is reloaded.

    Raises:
        SetupError: When another one runs in the folder, when the port is taken, or when the app is
            broken and nothing is reloaded; nothing was started then.
    """
    app = settings.app or APP
    with _alone(settings.data, place):
        check_address(settings, place.host)
        check_port(place)
        if settings.app is None:
            _say("loopmill", f"LOOPMILL_APP is not set: this is the demo's agent `triage` ({APP})")
        environment = {**os.environ, "LOOPMILL_APP": app}
        changes = _whole_app(app, environment, reloads=reloads)
        with _server_url(settings) as url:
            environment = environment_of(url, app, keeping=True)
            while True:
                _serve(place, environment, changes if reloads else None)
                changes = _whole_app(app, environment, reloads=reloads)


def check_port(place: Place) -> None:
    """See whether the address can be had.

    Raises:
        SetupError: When something listens there already; the text names the mend.
        OSError: When it cannot be had for another reason.
    """
    try:
        listen(place.host, place.port).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise SetupError(
            f"port {place.port} of {place.host} is taken: end what listens there, "
            f"or take another with --port {place.port + 1}"
        ) from error


@contextmanager
def _alone(data: Path, place: Place) -> Generator[None]:
    """Be the only one in the data folder.

    Raises:
        SetupError: When there is one already.
    """
    data.mkdir(parents=True, exist_ok=True)
    note, users = data / "dev.json", data / "dev.users"
    with exclusively(data / "dev.lock"):
        if users.exists() and not Use(users).end():
            first = json.loads(note.read_text())
            raise SetupError(
                f"`loopmill dev` serves this folder already, at {first['url']} "
                f"(pid {first['pid']}): use that one, or end it; a second one needs data and a "
                "port of its own: "
                f"LOOPMILL_DATA=.loopmill-2 loopmill dev --port {int(first['port']) + 1}"
            )
        use = Use(users)
        about = {"url": place.url, "port": place.port, "pid": os.getpid()}
        note.write_text(json.dumps(about))
    try:
        yield
    finally:
        use.end()


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


def _whole_app(app: str, environment: Mapping[str, str], *, reloads: bool) -> Changes:
    """Return what sees changes of the app's files and the configuration, once it can be imported.

    What keeps it from that is said once.

    Raises:
        SetupError: When it cannot be imported, and changes are not waited for.
    """
    said = None
    while True:
        since = time.time()
        loaded = load_elsewhere(app, environment)
        configuration = environment.get(f"{PREFIX}CONFIG", "").strip()
        files = [Path(file) for file in (*loaded.files, configuration) if file]
        # Callbacks lie beside the configuration, and not all of them are imported by the app.
        files += Path(configuration).parent.glob("*.py") if configuration else ()
        if loaded.problem is None:
            return Changes(partial(iter, files), since=since)
        if not reloads:
            raise SetupError(loaded.problem)
        if loaded.problem != said:
            said = loaded.problem
            _say("loopmill", f"! {said}\nwaiting for a file to change")
        # Its mend may be in a file that was never imported.
        near = partial(modules_near, Path.cwd(), files)
        _wait_for(Changes(near, since=since), lambda: None)


def _serve(place: Place, environment: Mapping[str, str], changes: Changes | None) -> None:
    """Serve until a file changes; without changes to look for, for ever."""
    with Children(_say) as children:
        keeper = Keeper(children, environment, partial(_say, "loopmill"))
        keeper.start("api", loopmill("api", "--host", place.host, "--port", str(place.port)))
        keeper.start("runs", loopmill("worker", "runs"))
        keeper.start("tools", loopmill("worker", "tools"))
        names = [file.name for file in _wait_for(changes, keeper.look)]
        _say("loopmill", f"restart: {', '.join(names[:3])} changed")


def _wait_for(changes: Changes | None, look: Callable[[], None]) -> list[Path]:
    """Look again and again, until there is a change."""
    while True:
        look()
        time.sleep(LOOK_EACH.total_seconds())
        seen = [] if changes is None else changes.seen()
        if seen:
            return seen


def _say(name: str, text: str) -> None:
    colour = f"\x1b[{COLOURS[name]}m" if sys.stderr.isatty() else ""
    end = "\x1b[0m" if colour else ""
    for line in text.splitlines():
        sys.stderr.write(f"{colour}{name:>{WIDTH}} │{end} {line}\n")
