"""Reads a line that is a JSON object, by the law of expressions: masked unit by unit.

Units are strings, runs of what numbers and names are made of, and single marks. Keys stay; so do
the words of what people wrote (the message, the level); every other value is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .masks import Reading, escape, is_severe, mask_word, shown

LONGEST = 400
"""An expression ends at the next comma after so many characters."""

LONGEST_TEXT = 200
"""The words of a text are told apart up to the next space after so many characters."""

STRING = r'"([^"\\]|\\.)*"'
SCALAR = "[0-9A-Za-z.+-]+"

_UNIT = re.compile(rb'("(?:[^"\\]|\\.)*")( *: *)?|([0-9A-Za-z.+-]+)|[]\[{}, :]')
_TEXT_UNIT = re.compile(rb'\\.|[^ "\\]+| ')
_LEVELS = frozenset({b'"level"', b'"lvl"', b'"severity"', b'"levelname"', b'"log.level"'})
_MESSAGES = frozenset({b'"message"', b'"msg"', b'"event"', b'"error"', b'"err"', b'"exception"'})
_SPOKEN = _LEVELS | _MESSAGES | {b'"logger"', b'"service"'}


def read_json(line: bytes) -> Reading | None:
    """Read a line that begins with a brace and names a level at which something failed."""
    if not line.startswith(b"{"):
        return None
    parts, titles, length, is_error = list[str](), list[str](), 0, False
    for key, unit, part in _units(line):
        if part is None:
            return None
        parts.append(part)
        length += len(part)
        is_string = unit.startswith(b'"')
        is_error = is_error or (is_string and key in _LEVELS and is_severe(unit[1:-1]))
        if is_string and key in _MESSAGES:
            titles.append(shown(part.replace(STRING[1:], "…")).strip('"'))
        if length > LONGEST and unit == b",":
            return _reading(parts, titles, "") if is_error else None
    return _reading(parts, titles, "$") if is_error else None


def _units(line: bytes) -> Iterator[tuple[bytes, bytes, str | None]]:
    """Yield each unit with the key right before it and its expression; None where JSON ends."""
    place, key = 0, b""
    while place < len(line):
        found = _UNIT.match(line, place)
        if found is None:
            yield key, b"", None
            return
        place = found.end()
        yield key, found.group(1) or found.group(), _expression(found, key)
        key = found.group(1) if found.group(2) else b""


def _expression(found: re.Match[bytes], key: bytes) -> str:
    string, colon, scalar = found.groups()
    if scalar is not None:
        return SCALAR
    if string is None or colon is not None:
        return escape(found.group())
    return _text(string[1:-1]) if key in _SPOKEN else STRING


def _text(text: bytes) -> str:
    parts, length = ['"'], 0
    for unit in _TEXT_UNIT.findall(text):
        part = escape(unit) if unit[:1] in {b"\\", b" "} else mask_word(unit, without=r'"\\')
        parts.append(part)
        length += len(part)
        if length > LONGEST_TEXT and unit == b" ":
            return "".join([*parts, STRING[1:]])
    return "".join([*parts, '"'])


def _reading(parts: list[str], titles: list[str], end: str) -> Reading:
    return Reading(f"^{''.join(parts)}{end}", ": ".join(titles) or "an error without a message")
