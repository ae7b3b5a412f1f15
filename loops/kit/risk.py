"""What a call may do, as far as its words tell; pure.

This is no wall: a sandbox is. It decides whom to ask, and asks rather once too often.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

Risk = Literal["write", "destructive"]

_DESTRUCTIVE = re.compile(
    r"""
    \b(?:shred|mkfs(?:\.\w+)?|killall|pkill|wipefs)\b
    | \bdd\b[^|;&]*\bof=
    | \btruncate\s+-
    | \bdrop\s+(?:table|database|schema)\b
    | \brm\s+(?:-\w*\s+)*-?\w*[rf]\w*\s
    | \bfind\b[^|;&]*\s-(?:delete|exec\s+rm)\b
    | \bgit\s+(?:push\b[^|;&]*\s(?:--force|-f)\b|reset\s+--hard|clean\b)
    | >\s*/dev/(?:sd|hd|nvme|vd|mmcblk)
    | \b(?:rmtree|unlink|os\.remove)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)

_READING = frozenset(
    {
        *("ls", "cat", "head", "tail", "wc", "grep", "rg", "pwd", "echo", "stat", "file", "du"),
        *("df", "date", "which", "whoami", "uname", "tree", "cut", "uniq", "nl", "cmp", "diff"),
    }
)
"""Commands that change nothing, whatever they are given: none of them runs another or writes."""

_JOINTS = re.compile(r"\|\||&&|[|;&\n]")
_WRITING = re.compile(r">|`|\$\(|<\(")


def risk(name: str, arguments: Mapping[str, Any]) -> Risk | None:
    """Return what a built-in tool's call may do; None for one that changes nothing."""
    if name == "edit":
        return "write"
    if name != "bash":
        return None
    command = str(arguments.get("command", ""))
    if _DESTRUCTIVE.search(command):
        return "destructive"
    parts = [part.split() for part in _JOINTS.split(command)]
    is_reading = all(not words or words[0] in _READING for words in parts)
    return None if is_reading and not _WRITING.search(command) else "write"
