"""Sessions in files of one machine: a file of JSON lines each, to which lines are only added.

Files are read from their end backwards (`session_lines`), so that loading costs what the window
costs, and appending what is appended, however long the session is.

The laws: whoever writes holds the file's lock alone, whoever reads shares it; a line that a death
has torn is passed over for good and never mended; a write that fails is taken back. The folder must
stand on a file system whose locks (`flock`) hold between all who use it.
"""

import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loops.guard import Raised
from loops.tasks import in_thread

from .session_lines import marker_line, message_lines, scan
from .stores import SessionConflict, Window, encoded, encoded_for, first_kept_of, missing_of

if sys.platform != "win32":
    import fcntl

    _SHARED = fcntl.LOCK_SH | fcntl.LOCK_NB
    _ALONE = fcntl.LOCK_EX | fcntl.LOCK_NB

    def _try_lock(descriptor: int, how: int) -> None:
        fcntl.flock(descriptor, how)
else:
    _SHARED = _ALONE = 0

    def _try_lock(descriptor: int, how: int) -> None:
        raise OSError(f"sessions cannot be kept in files here ({descriptor=}, {how=})")


T = TypeVar("T")

PATIENCE = timedelta(seconds=10)
"""How long a call waits for a file that others use; a write takes milliseconds."""

_PAUSE = timedelta(milliseconds=2)
_LONGEST_NAME = 120

logger = logging.getLogger("loopmill.sessions")


@dataclass(frozen=True, slots=True)
class Disk:
    """The calls by which a file is changed; those of the operating system, or a test's."""

    write: Callable[[int, bytes], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    truncate: Callable[[int, int], None] = os.ftruncate


class FileSessions:
    """Sessions in a folder, for the processes of one machine.

    What was appended is on the disk when the call returns. A call that is cancelled goes on in its
    thread: whether it did its work, the next `load` says.
    """

    def __init__(
        self, folder: Path | str, *, disk: Disk | None = None, patience: timedelta = PATIENCE
    ) -> None:
        self._folder = Path(folder)
        self._disk = disk or Disk()
        self._patience = patience

    async def load(self, session_id: str) -> Window:
        """Return what a run needs of the session; damaged lines are passed over, with a warning."""
        window = await _in_thread(partial(self._load, session_id))
        if window.damaged:
            counted = window.damaged, session_id
            logger.warning("! %d damaged entries of session %r are passed over", *counted)
        return window

    async def append(self, session_id: str, index: int, messages: Sequence[dict[str, Any]]) -> None:
        """Let the messages take the places from `index` on.

        Raises:
            SessionConflict: When a place is taken, or the session is shorter, or was deleted.
            OSError: When the file cannot be written, or others use it for too long.
        """
        # Encoded before the thread begins: what a caller changes from now on is not stored.
        texts = encoded_for(index, messages)
        if texts:
            await _in_thread(partial(self._append, session_id, index, texts))

    async def mark(self, session_id: str, marker: dict[str, Any]) -> None:
        """Append a marker.

        Raises:
            SessionConflict: When the session does not reach as far as `first_kept`.
            ValueError: When `first_kept` is no index.
            OSError: When the file cannot be written, or others use it for too long.
        """
        text, first = encoded(marker), first_kept_of(marker)
        await _in_thread(partial(self._mark, session_id, first, text))

    async def delete(self, session_id: str) -> None:
        """Forget the session, and remove its file; who has it in use is waited for."""
        await _in_thread(partial(self._delete, session_id))

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{file_name(session_id)}.jsonl"

    def _load(self, session_id: str) -> Window:
        with suppress(FileNotFoundError), self._locked(session_id, os.O_RDONLY) as file:
            found = scan(file)
            return Window(found.entries, found.length, found.marker, found.damaged)
        return Window([], 0, None, 0)

    def _append(self, session_id: str, index: int, texts: Sequence[str]) -> None:
        with self._writing(session_id, index) as file:
            found = scan(file, index)
            there = {entry.index: entry.message for entry in found.entries}
            missing = missing_of(session_id, index, texts, found.length, there)
            self._add(file, message_lines(found.length, missing))

    def _mark(self, session_id: str, first: int, text: str) -> None:
        with self._writing(session_id, first) as file:
            found = scan(file, first)
            if first > found.length:
                raise SessionConflict(session_id, first)
            self._add(file, marker_line(text, found.start))

    def _delete(self, session_id: str) -> None:
        with suppress(FileNotFoundError), self._locked(session_id, os.O_RDWR):
            self._path(session_id).unlink()
            self._sync_folder()

    @contextmanager
    def _writing(self, session_id: str, index: int) -> Generator[int]:
        """Hold the session's file alone; only what may be its beginning makes one."""
        flags = os.O_RDWR | os.O_APPEND
        if index == 0:
            self._folder.mkdir(parents=True, exist_ok=True)
            flags |= os.O_CREAT
        try:
            with self._locked(session_id, flags) as file:
                yield file
        except FileNotFoundError as error:
            raise SessionConflict(session_id, index) from error

    @contextmanager
    def _locked(self, session_id: str, flags: int) -> Generator[int]:
        """Open the file and hold its lock, alone or, for reading only, with others.

        Raises:
            FileNotFoundError: When there is none, or none any more, and the flags do not make one.
            TimeoutError: When others have held the lock for too long.
        """
        path = self._path(session_id)
        while True:
            file = os.open(path, flags, 0o600)
            try:
                _lock(file, _SHARED if flags == os.O_RDONLY else _ALONE, self._patience)
                # What was deleted while we waited is nobody's session any more.
                if _is_at(path, file):
                    yield file
                    return
            finally:
                os.close(file)

    def _add(self, file: int, lines: bytes) -> None:
        """Write the lines and see them to the disk; what goes wrong leaves the file as it was.

        Nobody has seen a part of them by then, since readers wait for the lock. Without any, the
        disk is asked once more for what a failed try may have left.
        """
        size = os.fstat(file).st_size
        if lines and size and os.pread(file, 1, size - 1) != b"\n":
            # A line that was torn, or lacks only its end, must not swallow the next one.
            lines = b"\n" + lines
        try:
            while lines:
                lines = lines[self._disk.write(file, lines) :]
            self._disk.fsync(file)
            if size == 0:
                self._sync_folder()
        except OSError:
            # After an fsync that failed, pages count as written: a second try must write them anew.
            with suppress(OSError):
                self._disk.truncate(file, size)
            raise

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            self._disk.fsync(folder)
        finally:
            os.close(folder)


async def _in_thread(work: Callable[[], T]) -> T:
    outcome = await in_thread(work, name="session file")
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome


def file_name(session_id: str) -> str:
    """Return a name that is a file's on every system, and no other session's.

    Capitals are escaped like signs: some systems do not tell them from small letters.
    """
    given = session_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in given)
    if len(name) > _LONGEST_NAME:
        return f"{name[:40]}%%{hashlib.sha256(given).hexdigest()}"
    return name or "%"


_PLAIN = b"abcdefghijklmnopqrstuvwxyz0123456789-_"


def _lock(file: int, how: int, patience: timedelta) -> None:
    end = time.monotonic() + patience.total_seconds()
    while True:
        try:
            _try_lock(file, how)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise TimeoutError(f"waited {patience} for a session that others use") from error
            time.sleep(_PAUSE.total_seconds())
        else:
            return


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
