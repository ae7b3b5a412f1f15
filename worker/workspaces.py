"""The folders in which tools work with files: one for each session.

Workers on several machines see the same files only where the folder of `LOOPMILL_DATA` is shared.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .settings import Settings


def workspace_of(settings: Settings, tenant: str, session_id: str) -> str:
    """Return the path of a session's folder, which is made when a tool first needs it."""
    return f"{_root(settings.data)}/{tenant}/{session_id}"


@cache
def _root(data: Path) -> str:
    return str(data.absolute() / "workspaces")
