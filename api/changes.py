"""Sees which files were changed, by looking at their times: no change is missed, however short."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path


class Changes:
    """What was changed, added or removed among some files since a time (`time.time()`)."""

    def __init__(self, files: Callable[[], Iterable[Path]], *, since: float) -> None:
        self._files = files
        now = time.time()
        # A file that was written between that time and now has changed; one of the future has not.
        self._before = {
            file: stamp for file, stamp in self._stamps().items() if not since < stamp / 1e9 <= now
        }

    def seen(self) -> list[Path]:
        """Return the files that are not as they were."""
        now = self._stamps()
        return sorted(
            file
            for file in now.keys() | self._before.keys()
            if now.get(file) != self._before.get(file)
        )

    def _stamps(self) -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in self._files() if file.is_file()}


def modules_near(folder: Path, files: Collection[Path]) -> list[Path]:
    """Return the modules in which the mend of a broken app may be.

    Those are the files, their neighbours, and what is in the folder and in the folders below it.
    """
    places = {folder, *(file.parent for file in files)}
    places |= {each for each in folder.iterdir() if each.is_dir() and each.name[:1] not in "._"}
    return sorted({*files, *(file for place in places for file in place.glob("*.py"))})
