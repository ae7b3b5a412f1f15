"""What a call may do, as far as its words tell; pure.

This is no wall: a sandbox is. It decides whom to ask, and asks rather once too often.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

Risk = Literal["write", "destructive"]

_DESTROYERS = frozenset({"shred", "killall", "pkill", "wipefs", "mkfs"})
_SAYINGS = re.compile(
    r"\bdrop\s+(?:table|database|schema)\b|>\s*/dev/(?:sd|hd|nvme|vd|mmcblk)|rmtree|os\.remove",
    re.IGNORECASE,
)
LONGEST = 10_000
"""How many characters of a command are looked at; what is longer may hold anything."""

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
    parts = [part.split() for part in _JOINTS.split(command[:LONGEST])]
    is_long = len(command) > LONGEST
    if is_long or _SAYINGS.search(command) or any(map(_destroys, parts)):
        return "destructive"
    is_reading = all(not words or words[0] in _READING for words in parts)
    return None if is_reading and not _WRITING.search(command) else "write"


def _destroys(words: list[str]) -> bool:
    """Say whether a command takes away what cannot be brought back, itself or through another."""
    names = [word.strip("\"'()").rpartition("/")[2] for word in words]
    if not _DESTROYERS.isdisjoint(name.partition(".")[0] for name in names):
        return True
    return any(name in names and is_so(words) for name, is_so in _WITH_OPTIONS.items())


def _removes(words: list[str]) -> bool:
    options = [word for word in words if word.startswith("-")]
    return any(
        word in {"--recursive", "--force"} or (word[1] != "-" and {*word.lower()} & {"r", "f"})
        for word in options
        if len(word) > 1
    )


def _forces(words: list[str]) -> bool:
    if "clean" in words or ("reset" in words and "--hard" in words):
        return True
    forced = {"-f", "--force", "--force-with-lease", "--mirror", "--delete"}
    return "push" in words and any(word in forced or word.startswith("+") for word in words)


_WITH_OPTIONS: dict[str, Callable[[list[str]], bool]] = {
    "rm": _removes,
    "git": _forces,
    "dd": lambda words: any(word.startswith("of=") for word in words),
    "truncate": lambda words: any(word.startswith("-") for word in words),
    "find": lambda words: "-delete" in words or "rm" in words,
    "unlink": bool,
}
"""What destroys with some options only."""
