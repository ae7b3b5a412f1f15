"""The Lua scripts: read once, with the shared functions that they name put before them.

A script's first comment lists its arguments; a line `-- uses: queue log` names the files of
shared functions (`lua/shared/*.lua`) that it calls, in the order in which they are put before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from pathlib import Path

FOLDER = Path(__file__).parent / "lua"
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, and the digest under which the server keeps it."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return the script `lua/<name>.lua`, whole.

    Raises:
        FileNotFoundError: When there is no such script, or no such file of shared functions.
    """
    body = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    used = _USES.search(body)
    shared = [
        (FOLDER / "shared" / f"{part}.lua").read_text(encoding="utf-8")
        for part in (used.group(1).split() if used else [])
    ]
    text = "\n".join([*shared, body])
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())
