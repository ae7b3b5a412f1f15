"""Environments of their own for peers: `python3 -m venv`, and pip by package name and version."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parent / ".envs"
STAMP = "packages.txt"


def environment(name: str, packages: Sequence[str]) -> Path:
    """Return the folder of the environment's programs; it is made, or made anew, when need be.

    Raises:
        SystemExit: When the packages cannot be installed.
    """
    home = ENVIRONMENTS / name
    stamp, wanted = home / STAMP, "\n".join(packages) + "\n"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"making {home} with {', '.join(packages)}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", *packages]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"cannot make {home}: {done.stderr[-2000:]}")
        stamp.write_text(wanted, encoding="utf-8")
    return home / "bin"


def our_own() -> Path:
    """Return the folder of the programs of the environment that runs this."""
    return Path(sys.executable).parent
