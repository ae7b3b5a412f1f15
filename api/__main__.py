"""The `loopmill` command, and `python -m api`.

The current folder, where the user's agents are, comes after all that is installed. A folder that
has packages of our names would be taken for ours half of the time, in one process and not in
another, so nothing starts there.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

from .cli import command
from .folder import clashing, enter_folder

INTERRUPTED = 130
"""What a shell calls the end of a program that Ctrl-C has ended."""


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
    try:
        command(prog_name="loopmill")
    except KeyboardInterrupt:
        # A second one, while the first was being dealt with.
        sys.exit(INTERRUPTED)
    finally:
        _forget_interrupts()


def _forget_interrupts() -> None:
    """Let the process end with the code that was chosen.

    A Ctrl-C that hits Python while it makes a class' methods of text, as for dataclasses, counts as
    one that nobody has caught, also when it was: such a process would end by the signal.
    """
    eval("None")  # noqa: S307 - any text that is evaluated well clears the note


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
