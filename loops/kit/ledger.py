"""The files that a session has read or changed, in one line that outlives every summary."""

import json
import re
from collections.abc import Iterator, Sequence

from loops.blocks import Raw

from .estimate import blocks_of

HEADING = "Files touched so far: "
"""What the line begins with, by which it is found again."""

MOST_FILES = 100
"""How many files the line names; of the others it tells the number."""

FILE_TOOLS = ("read", "edit")
"""The tools whose calls name a file as their `path`."""

_ENTRY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)(?:,|$)')
_MORE = re.compile(r"and (\d{1,9}) more")
_AMBIGUOUS = re.compile(r'[,"\r\n]|^\s|\s$|^and ')


def ledger(messages: Sequence[Raw], before: str = "") -> str:
    """Return the line that names the files which calls have read or changed; "" if there are none.

    The file that was seen first stands first, and none twice. A path that would make the line
    ambiguous, with a comma for instance, is written as a JSON string.

    Args:
        messages: The part of a history that is to be summed up.
        before: A text with an earlier such line, whose files come before those of the messages.
            How many files that line left unnamed is kept, though some of them may be seen again.
    """
    entries = list(_entries(before))
    more = max((int(each[1]) for each in map(_MORE.fullmatch, entries) if each), default=0)
    earlier = [_path(each) for each in entries if not _MORE.fullmatch(each)]
    paths = list(dict.fromkeys([*earlier, *_touched(messages)]))
    more += max(0, len(paths) - MOST_FILES)
    if not paths:
        return ""
    named = [_entry(path) for path in paths[:MOST_FILES]]
    return HEADING + ", ".join([*named, *([f"and {more} more"] if more else [])])


def _entries(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.startswith(HEADING):
            found = (match[1].strip() for match in _ENTRY.finditer(line[len(HEADING) :]))
            yield from (entry for entry in found if entry)


def _touched(messages: Sequence[Raw]) -> Iterator[str]:
    for message in messages:
        for block in blocks_of(message):
            match block:
                case {"type": "tool_use", "name": name, "input": {"path": str(path)}}:
                    if name in FILE_TOOLS and path.strip():
                        yield path
                case _:
                    pass


def _entry(path: str) -> str:
    return json.dumps(path, ensure_ascii=False) if _AMBIGUOUS.search(path) else path


def _path(entry: str) -> str:
    if not entry.startswith('"'):
        return entry
    try:
        path: object = json.loads(entry)
    except ValueError:
        return entry
    return path if isinstance(path, str) else entry


__all__ = ["FILE_TOOLS", "HEADING", "MOST_FILES", "ledger"]
