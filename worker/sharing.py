"""Locks on files, through which processes share what only one of them may start or end."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

    _EXCLUSIVE = fcntl.LOCK_EX
    _SHARED = fcntl.LOCK_SH
    _AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB

    def _lock(descriptor: int, how: int) -> None:
        fcntl.flock(descriptor, how)
else:
    _EXCLUSIVE = _SHARED = _AT_ONCE = 0

    def _lock(descriptor: int, how: int) -> None:
        raise OSError(f"files cannot be shared here ({descriptor=}, {how=})")


@contextmanager
def exclusively(path: Path) -> Generator[None]:
    """Keep other processes out of what is done under the same path."""
    with path.open("ab") as lock:
        _lock(lock.fileno(), _EXCLUSIVE)
        yield


class Use:
    """This process' part in something that several use. It ends with the process at the latest."""

    def __init__(self, path: Path) -> None:
        self._lock = path.open("ab")
        _lock(self._lock.fileno(), _SHARED)

    def end(self) -> bool:
        """Give the part up, and say whether nobody uses it any more."""
        with self._lock:
            try:
                _lock(self._lock.fileno(), _AT_ONCE)
            except BlockingIOError:
                return False
            return True
