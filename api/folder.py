"""The current folder, where the user's agents are: what may be imported of it, and what may not.

It is asked before anything else of ours is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
"""Where our packages lie, side by side."""


def enter_folder(folder: Path) -> None:
    """Let modules of the folder be imported, after all that is installed."""
    here = str(folder)
    sys.path[:] = [place for place in sys.path if place not in {"", here}] + [here]


def clashing(folder: Path) -> Path | None:
    """Return what in the folder would be taken for one of our packages, and is not it."""
    for name in ("api", "worker", "loops"):
        for found in (folder / name, folder / f"{name}.py"):
            is_package = found.is_file() or (found / "__init__.py").is_file()
            if is_package and found.resolve() != HOME / name:
                return found
    return None
