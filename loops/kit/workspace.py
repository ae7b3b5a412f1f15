"""The folder that a run works in, and the only way into it.

A path of a model is judged by where it leads, all links followed. What is opened afterwards is
opened folder by folder and follows no link: whoever puts one there in between, gains nothing.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePosixPath
from time import monotonic

from loops.errors import InvalidArguments, ToolFailed
from loops.tool_context import ToolContext

INSIDE = "/workspace"
"""What the folder is called in a sandbox, and in paths that a model writes."""

OURS = ".loopmill"
"""How the names begin that belong to us; no tool shows or touches them."""

LOCK_WAIT = timedelta(seconds=30)
"""How long a change waits for another one of the same file."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REASONS = {
    errno.ENOENT: "there is no such file or folder in the workspace",
    errno.ELOOP: "a link on the way does not lead to anything in the workspace",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
}


def workspace_of(context: ToolContext) -> Path:
    """Return the real path of the run's workspace; the folder is made if it is missing.

    Raises:
        ToolFailed: When the run has none, or it cannot be a folder.
    """
    given: object = context.workspace
    if not isinstance(given, str | Path):  # a Path has a `root` too, which is another thing
        given = getattr(given, "root", given)
    if given is None or given == "":
        raise ToolFailed("this run has no workspace, so there are no files and no commands here")
    if not isinstance(given, str | Path):
        raise ToolFailed(f"a workspace is a path or has one as its root, not {given!r}")
    root = Path(os.path.realpath(given))
    if root == root.parent:
        raise ToolFailed("the whole machine is no workspace; give a folder of its own")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolFailed(f"the workspace cannot be made: {error.strerror}") from error
    return root


def inside(root: Path, path: str) -> Path:
    """Return where a path of a model leads, which may not be there yet; all links are followed.

    A relative path, `~/x` and `/workspace/x` mean the workspace.

    Raises:
        InvalidArguments: When it leads elsewhere, or to names that are ours; the text says which
            form is wanted.
    """
    real = Path(os.path.realpath(root))
    found = Path(os.path.realpath(real / _relative(path)))
    if not found.is_relative_to(real):
        raise InvalidArguments(f"{path!r} leads out of the workspace; name a file inside of it")
    if any(is_ours(part) for part in found.relative_to(real).parts):
        raise InvalidArguments(f"{path!r} is not yours: names beginning with {OURS} are reserved")
    return found


def is_ours(name: str) -> bool:
    """Say whether a file or folder of this name belongs to us."""
    return name.casefold().startswith(OURS)


def _relative(path: str) -> PurePosixPath:
    if not path.strip():
        raise InvalidArguments("the path is empty; give one like 'notes/plan.md', or '.'")
    _refuse_unwritable(path)
    given = PurePosixPath(path)
    if given.parts[:1] == ("~",):
        return given.relative_to("~")
    if not given.is_absolute():
        return given
    if not given.is_relative_to(INSIDE):
        raise InvalidArguments(
            f"{path!r} is outside of the workspace; give a path relative to it, like 'notes.md', "
            f"or one that begins with {INSIDE}/"
        )
    return given.relative_to(INSIDE)


def _refuse_unwritable(path: str) -> None:
    # Python itself refuses a NUL and half a character, but in words that say nothing to a model.
    if "\0" in path:
        raise InvalidArguments(f"{path!r} holds a NUL, which no path may")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(f"{path!r} holds half a character, which no path may") from error


@contextmanager
def telling(path: str) -> Generator[None]:
    """Let what the system refuses in the block be told to the model, by the path that it gave.

    Raises:
        ToolFailed: When the system refuses something.
    """
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or type(error).__name__)
        raise ToolFailed(f"{path!r} cannot be used: {reason}") from error


@contextmanager
def opened_folder(root: Path, folder: Path, *, make: bool = False) -> Generator[int]:
    """Give an open folder of the workspace in the block; no link is followed to it.

    Args:
        root: The real path of the workspace.
        folder: The real path of the folder, as `inside` says it.
        make: Whether what is missing of it is made.

    Raises:
        OSError: When a part of it is missing, no folder, or a link.
    """
    with ExitStack() as opened:
        current = _kept_open(opened, os.open(root, _FOLDER))
        for name in folder.relative_to(root).parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=current)
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
            current = _kept_open(opened, inner)
        yield current


@contextmanager
def opened_to_read(root: Path, path: Path) -> Generator[int]:
    """Give an open file or folder of the workspace in the block; no link is followed to it.

    Raises:
        OSError: When it is missing, or a link, or on the way to it is one.
    """
    if path == root:
        with opened_folder(root, path) as folder:
            yield folder
        return
    # Without O_NONBLOCK a named pipe would be waited for, until somebody writes to it.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with ExitStack() as opened:
        folder = opened.enter_context(opened_folder(root, path.parent))
        yield _kept_open(opened, os.open(path.name, flags, dir_fd=folder))


def _kept_open(opened: ExitStack, file: int) -> int:
    opened.callback(os.close, file)
    return file


def content_of(file: int, path: str, limit: int) -> bytes:
    """Return all that an open file holds.

    Raises:
        ToolFailed: When it is no regular file, or has more bytes than the limit.
    """
    refuse_irregular(file, path)
    with os.fdopen(os.dup(file), "rb") as opened:
        content = opened.read(limit + 1)
    if len(content) > limit:
        raise ToolFailed(
            f"{path!r} has more than the {limit} bytes that can be read or changed; "
            "take a part of it into another file first"
        )
    return content


def refuse_irregular(file: int, path: str) -> None:
    """Pass if the open file is a regular one.

    Raises:
        ToolFailed: When it is a folder, a pipe, or another thing that has no content.
    """
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise ToolFailed(f"{path!r} is {kind}; name a file")


def replace_file(folder: int, name: str, content: bytes) -> None:
    """Write a file as a whole, made anew or in place of an earlier one, whose mode it keeps.

    Who reads it meanwhile sees the earlier content or this one, and so it is after a crash.
    """
    # The name is ours, so that what a crash leaves behind is not shown.
    made = f"{OURS}-{secrets.token_hex(8)}.tmp"
    try:
        _write_new(folder, made, content, mode=_mode_of(folder, name))
        os.replace(made, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(made, dir_fd=folder)
        raise
    os.fsync(folder)


def _mode_of(folder: int, name: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _write_new(folder: int, name: str, content: bytes, *, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def keep_in_trash(root: Path, path: Path, file: int) -> str:
    """Copy what an open file holds to the trash, and return the name that it has there.

    The name is that of the file with a number, so that nothing in the trash is ever replaced.
    """
    folder = root / OURS / "trash" / path.parent.relative_to(root)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened_folder(root, folder, make=True) as trash:
        number = 1 + max((_number(name, path.name) for name in os.listdir(trash)), default=0)
        kept = f"{path.name}.{number}"
        with os.fdopen(os.open(kept, flags, 0o600, dir_fd=trash), "wb") as copy:
            while piece := os.read(file, 1 << 20):
                copy.write(piece)
    return str((folder / kept).relative_to(root))


def _number(kept: str, name: str) -> int:
    number = kept.removeprefix(f"{name}.")
    return int(number) if number != kept and number.isascii() and number.isdigit() else 0


@contextmanager
def locked(root: Path, path: Path, *, cancelled: threading.Event) -> Generator[None]:
    """Keep everyone else, in any thread or process, from changing the file in the block.

    Raises:
        ToolFailed: When another change takes too long, or the call was cancelled meanwhile.
    """
    # One of a fixed number of locks, so that they do not grow with the files. Two files may share
    # one, which costs a short wait; nobody holds two of them, so none waits for ever.
    name = hashlib.sha256(os.fsencode(path.relative_to(root))).hexdigest()[:2]
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened_folder(root, root / OURS / "locks", make=True) as locks, ExitStack() as opened:
        lock = _kept_open(opened, os.open(name, flags, 0o600, dir_fd=locks))
        _take(lock, cancelled)
        yield


def _take(lock: int, cancelled: threading.Event) -> None:
    end = monotonic() + LOCK_WAIT.total_seconds()
    while not cancelled.is_set():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if monotonic() > end:
                raise ToolFailed(
                    f"another change of the file takes longer than {LOCK_WAIT}; try again later"
                ) from error
            cancelled.wait(0.005)
        else:
            return
    raise ToolFailed("the call was cancelled before it changed anything")
