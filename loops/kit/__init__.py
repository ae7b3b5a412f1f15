"""The loop kit: loops as functions, with sessions, tools and compaction to build them of.

`import loops.kit as cycls` works as well: `cycls.LLM()`.
"""

from importlib import import_module
from typing import Any

from loops.tool_context import ToolContext

from . import events
from .compact import compact
from .default_loop import default_loop
from .dispatch import dispatch
from .events import to_ui
from .file_store import FileSessions
from .limits import Limits
from .llm import LLM
from .making import make_provider
from .provider import Provider
from .session import Session
from .shaping import tool_result
from .stores import MemorySessions
from .toolbox import build_tools
from .turn import Turn
from .web_search import Found

_LAZY = {"MCP": "loops.kit.mcp"}
"""What takes long to import, and that not everybody needs."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "LLM",
    "FileSessions",
    "Found",
    "Limits",
    "MemorySessions",
    "Provider",
    "Session",
    "ToolContext",
    "Turn",
    "build_tools",
    "compact",
    "default_loop",
    "dispatch",
    "events",
    "make_provider",
    "to_ui",
    "tool_result",
]
