"""The folders in which tools work with files: one for each session.

Workers on several machines see the same files only where the folder of `LOOPMILL_DATA` is shared.
"""

from __future__ import annotations

from .settings import Settings


def workspace_of(settings: Settings, tenant: str, session_id: str) -> str:
    """Return the path of a session's folder, which is made when a tool first needs it."""
    return str(settings.data.absolute() / "workspaces" / tenant / session_id)
