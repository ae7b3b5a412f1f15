"""A sandbox for one command: bubblewrap around it, an end to it, and a bound to what it writes.

The sandbox holds the programs of this machine, read-only, a workspace, and nothing else: no homes,
no sockets, no other workspace. Without bubblewrap nothing is run at all.
"""

import asyncio
import codecs
import os
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from loops.errors import ToolFailed
from loops.tasks import Owner

from .workspace import INSIDE, OURS

MAX_OUTPUT = 200_000
"""How many characters of what a command writes are kept: half from the beginning, half from the
end."""

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix")
"""The folders of the machine that a command may read, those of them that are there.

What the worker's user may read in them a command may read too: they are no place for secrets, and
a worker that runs commands should not run as root.
"""

VARIABLES: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": INSIDE,
    "TERM": "dumb",
    "LANG": "C.UTF-8",
}
"""All that stands in a command's environment; the worker's own holds its secrets."""

PROBE_LIMIT = timedelta(seconds=10)
"""How long the sandbox may take to run nothing."""

_DRAIN = timedelta(seconds=1)
"""How long the rest of the output may take to come, once the command is over."""

_PIECE = 64 * 1024

_RESOLVER = "/run/systemd/resolve"
"""Where the file often lies that says which server knows the names of the network."""

_ALLOW = (
    "let this user make user namespaces (in a container: by its seccomp and AppArmor profile), "
    "or do without commands"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    output: str
    """What it wrote, errors among it, bounded and without white space around."""
    code: int | None
    """Its exit code, as a shell tells it; None when it was out of time."""


def sandboxed(program: str, root: Path, command: str, *, network: bool) -> list[str]:
    """Return the arguments that run a shell command in a sandbox around the workspace.

    With the network a command reaches all that this machine reaches, its own services among it.

    Args:
        program: The path of bubblewrap.
        root: The real path of the workspace, which is `/workspace` in the sandbox.
        command: What `bash` is to run.
        network: Whether the command may use the network.
    """
    return [
        program,
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *([] if network else ["--unshare-net"]),
        # No --new-session: `run_program` makes the session, so that bubblewrap and what it starts
        # are one group, which is killed as one. Else what is just being set up could get away.
        *("--die-with-parent", "--cap-drop", "ALL", "--clearenv"),
        *(each for name, value in VARIABLES.items() for each in ("--setenv", name, value)),
        *_folders(root, network=network),
        *("--chdir", INSIDE, "--", "bash", "-c", command),
    ]


def _folders(root: Path, *, network: bool) -> list[str]:
    """Return what there is in the sandbox; what comes later lies over what came before."""
    readable = [*PROGRAMS, _RESOLVER] if network else [*PROGRAMS]
    # The folder around the workspace holds those of others, and may lie in one that is readable.
    others = [] if root.parent == root.parent.parent else ["--tmpfs", str(root.parent)]
    return [
        *(each for folder in readable for each in ("--ro-bind-try", folder, folder)),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - the sandbox's own
        *others,
        *("--bind", str(root), INSIDE),
        # The trash and the locks are not the command's to change.
        *("--tmpfs", f"{INSIDE}/{OURS}", "--remount-ro", f"{INSIDE}/{OURS}"),
        *("--remount-ro", "/"),
    ]


class Sandboxes:
    """Makes sandboxes, once one has been seen to work."""

    def __init__(self, *, network: bool) -> None:
        self._network = network
        self._proven: set[str] = set()

    async def run(self, command: str, root: Path, *, limit: timedelta) -> Ended:
        """Run a shell command in a sandbox around the workspace, and return how it ended.

        Whatever happens, a cancellation too, no process of it is left.

        Raises:
            ToolFailed: When there is no bubblewrap here, or it does not work.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise ToolFailed(
                "commands run in a sandbox only, and there is none here: 'bwrap' is not on PATH; "
                "install the package bubblewrap where the tools run"
            )
        if program not in self._proven:
            await self._prove(program, root)
        return await run_program(self._argv(program, root, command), limit=limit)

    async def _prove(self, program: str, root: Path) -> None:
        ended = await run_program(self._argv(program, root, "true"), limit=PROBE_LIMIT)
        if ended.code != 0:
            told = ended.output[:1000] or f"it ended with {ended.code}"
            raise ToolFailed(
                "commands run in a sandbox only, and bubblewrap does not work here: "
                f"{told}; {_ALLOW}"
            )
        self._proven.add(program)

    def _argv(self, program: str, root: Path, command: str) -> list[str]:
        return sandboxed(program, root, command, network=self._network)


class Excerpt:
    """The beginning and the end of a text that may be endless; fed with its bytes."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def feed(self, piece: bytes, *, final: bool = False) -> None:
        """Take the next bytes; what is no UTF-8 is replaced."""
        text = self._decoder.decode(piece, final)
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        # Cut now and then only, since each cut copies what is kept.
        if len(self._tail) > 2 * self._half:
            self._cut()

    def _cut(self) -> None:
        surplus = max(0, len(self._tail) - self._half)
        self._left_out += surplus
        self._tail = self._tail[surplus:]

    @property
    def text(self) -> str:
        """What is kept, with a mark where something is left out."""
        self._cut()
        mark = f"\n[{self._left_out} characters are left out here]\n" if self._left_out else ""
        return f"{self._head}{mark}{self._tail}".strip()


async def run_program(argv: Sequence[str], *, limit: timedelta) -> Ended:
    """Run a program without an environment, and return how it ended.

    It and all that it started in its process group is gone afterwards, also after a cancellation.

    Raises:
        ToolFailed: When it cannot be started.
    """
    kept, owner = Excerpt(MAX_OUTPUT), Owner()
    source, sink = os.pipe()
    reader = asyncio.StreamReader()
    transport = await _reading(source, reader)
    feeding = owner.start(_feed(kept, reader), name="output of a command")
    # A task of its own: a start that is cancelled half-way would leave nothing to end it by.
    starting = owner.start(_started(argv, sink), name="start of a command")
    try:
        await asyncio.wait([starting])
        code = await _exit_code(starting.result(), limit)
    finally:
        try:
            await _end(starting, feeding)
        finally:
            transport.close()
            await owner.close()
    kept.feed(b"", final=True)
    return Ended(kept.text, code)


async def _reading(source: int, reader: asyncio.StreamReader) -> asyncio.ReadTransport:
    # A pipe of our own, since the one of a subprocess is held open by whoever inherited it, and
    # with it the waiting for the process.
    loop = asyncio.get_running_loop()
    opened = os.fdopen(source, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), opened
    )
    return transport


async def _started(argv: Sequence[str], sink: int) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolFailed(f"the command cannot be started: {error}") from error
    finally:
        os.close(sink)


async def _feed(kept: Excerpt, reader: asyncio.StreamReader) -> None:
    while piece := await reader.read(_PIECE):
        kept.feed(piece)


async def _exit_code(process: Process, limit: timedelta) -> int | None:
    try:
        async with asyncio.timeout(limit.total_seconds()):
            code = await process.wait()
    except TimeoutError:
        return None
    # A shell tells a signal as 128 and its number, and so does bubblewrap of what is in it.
    return code if code >= 0 else 128 - code


async def _end(starting: asyncio.Task[Process], feeding: asyncio.Task[None]) -> None:
    """End the program if it is not over, and take what it has written."""
    if not starting.done():
        await asyncio.wait([starting])
    if starting.exception() is not None:
        return
    process = starting.result()
    if process.returncode is None:
        _kill_group(process.pid)
        await process.wait()
    await asyncio.wait([feeding], timeout=_DRAIN.total_seconds())
    if not feeding.done():
        # Someone of the group holds the pipe: the group is there, and its number still its own.
        _kill_group(process.pid)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
