"""The `loopmill` command, and `python -m api`.

Its own packages are imported first; only then comes the current folder, where the user's agents
are. A folder that has packages of the same names would be taken for ours half of the time, in one
process and not in another, so nothing starts there.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

import api
import loops
import worker

from .cli import command
from .loading import enter_folder


def main() -> None:
    """Run the command line, and exit."""
    clash = clashing(Path.cwd())
    if clash is not None:
        sys.stderr.write(
            f"loopmill: {str(clash)!r} has the name of one of Loopmill's own packages (api, worker,"
            " loops); start from another folder, or rename it\n"
        )
        sys.exit(2)
    enter_folder(Path.cwd())
    # What a terminal that is closed and `kill` send ends the same way as Ctrl-C: in order.
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    command(prog_name="loopmill")


def clashing(folder: Path) -> Path | None:
    """Return what in the folder would be taken for one of our packages, and is not it."""
    for package in (api, worker, loops):
        ours = Path(str(package.__file__)).parent.resolve()
        for found in (folder / ours.name, folder / f"{ours.name}.py"):
            is_package = found.is_file() or (found / "__init__.py").is_file()
            if is_package and found.resolve() != ours:
                return found
    return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
