"""Imports the user's app, and says in one line what is wrong with it, if something is.

`python -m api.loading module:app` does it in a process of its own, and prints what came of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import api
import loops
import worker
from loops.app import App
from loops.errors import SetupError
from loops.find import find_app
from loops.guard import Raised, describe, outcome_of_call

from .folder import enter_folder

OURS = tuple(f"{Path(str(each.__file__)).parent}{os.sep}" for each in (api, loops, worker))
LIBRARIES = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

SHORT = 300
"""How many characters of an error stand in its line."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of an import."""

    app: App | None = None
    problem: str | None = None
    """One line: where in the user's files, and what."""
    files: frozenset[str] = field(default_factory=frozenset[str])
    """The user's files that were imported, also when the app is broken."""


def load(path: str) -> Loaded:
    """Import the app at `module:name`; whatever its modules raise is a problem, not an error.

    Raises:
        KeyboardInterrupt: When the user does not want to wait for it.
    """
    before = set(sys.modules)
    found = outcome_of_call(partial(find_app, path))
    files = frozenset(_files(set(sys.modules) - before))
    if not isinstance(found, Raised):
        return Loaded(found, files=files)
    if isinstance(found.error, KeyboardInterrupt):
        raise found.error
    return Loaded(
        problem=line_of(found.error), files=files | {each for each, _ in _at(found.error)}
    )


def load_elsewhere(path: str, environment: Mapping[str, str]) -> Loaded:
    """Import the app in a process that ends at once; only its problem and its files come back."""
    done = subprocess.run(  # noqa: S603  # our own program, no shell
        [sys.executable, "-P", "-m", "api.loading", path],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    # The app's modules may print, too; ours is the last line.
    last = done.stdout.rpartition(MARK)[2]
    if done.returncode != 0 or not last:
        return Loaded(problem=f"importing {path!r} ended the process with code {done.returncode}")
    told = json.loads(last)
    return Loaded(problem=told["problem"], files=frozenset(told["files"]))


MARK = "\x1eloaded "


def line_of(error: BaseException) -> str:
    """Return the error in a line: the last of the user's lines that led to it, and what it is."""
    cause = error.__cause__ if isinstance(error, SetupError) else None
    for each in (error,) if cause is None else (cause, error):
        places = _at(each)
        if places:
            file, number = places[-1]
            return f"{_near(file)} line {number}: {_short(each)}"
    return _one_line(str(error)) if isinstance(error, SetupError) else _short(error)


def _at(error: BaseException) -> list[tuple[str, int]]:
    """Return the user's lines that led to the error, the last one at the end."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(each.filename, each.lineno or 0) for each in frames if _is_users(each.filename)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        places.append((error.filename, error.lineno or 0))
    return places


def _short(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return _one_line(describe(error))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[:SHORT]}…"


def _files(names: set[str]) -> Iterator[str]:
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if isinstance(file, str) and not file.startswith(LIBRARIES):
            yield os.path.realpath(file)


def _is_users(file: str) -> bool:
    return not file.startswith(("<", *LIBRARIES, *OURS))


def _near(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def main() -> None:
    """Print what came of the import."""
    enter_folder(Path.cwd())
    loaded = load(sys.argv[1])
    told = {"problem": loaded.problem, "files": sorted(loaded.files)}
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
