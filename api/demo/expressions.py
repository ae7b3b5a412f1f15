"""From a line of a log to the regular expressions (`grep -E`) of the errors that it reports.

There are three ways of reading a line: as a request, as JSON, as words. Each gives at most one
expression, and keeps one law:

    a way of reading gives a line the expression E  ⇔  the line matches E

So the lines that a way of reading puts under an expression are exactly those that grep counts,
in whatever file they stand and whatever else was read there. The law holds because what varies is
masked unit by unit (a word with a digit in it stands for every word with a digit in it), borders
of units are never masked, and whether a line is an error is decided by what is not masked.

Lines are bytes and are read as grep does under LC_ALL=C. What is written here is also a regular
expression of Python's with the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .json_lines import read_json
from .masks import MONTH, WEEKDAY, WORD, Reading, escape, is_severe, mask_word, shown

LONGEST = 400
"""An expression ends at the next word after so many characters, however long the line."""

UNWIELDY = 2_000
"""A longer expression is not given: nobody would read it."""

_ERROR_SIGNS = (
    *(b"err", b"fatal", b"crit", b"severe", b"panic", b"emerg", b"alert", b"exception"),
    b'" 5',
)
_REQUEST = re.compile(rb'[^ "]+ [^ "]+ [^ "]+ \[[^]"]*\] "[^"]*" (5[0-9][0-9])( |\Z)')
_MASKS_IN_A_ROW = re.compile(f"(?:{re.escape(WORD)} ){{2,}}")
_MONTH = re.compile(MONTH.encode())
_WEEKDAY = re.compile(WEEKDAY.encode())
_RAISED = re.compile(rb"([A-Za-z_][\w.$]*)?(Error|Exception):?")
_BARE_LEVEL = re.compile(rb"(ERROR|FATAL|CRITICAL|SEVERE|PANIC)[:,]?")
_DRESSED_LEVEL = re.compile(rb'\[<?(\w+)>?\][:,]?|(\w+):|(?:level|lvl|severity)="?(\w+)"?')


def readings(line: bytes) -> Iterator[Reading]:
    """Yield what the line reports as an error, by each way of reading it.

    The line comes without its end. Most lines yield nothing, and that is found out fast.
    """
    lowered = line.lower()
    if not any(sign in lowered for sign in _ERROR_SIGNS):
        return
    for read in (read_request, read_json, read_words):
        reading = read(line)
        if reading is not None and len(reading.expression) <= UNWIELDY:
            yield reading


def read_request(line: bytes) -> Reading | None:
    """Read a line of a web server's access log that reports a status of 500 or more."""
    found = _REQUEST.match(line)
    if found is None:
        return None
    status = found.group(1).decode("ascii")
    return Reading(
        rf'^[^ "]+ [^ "]+ [^ "]+ \[[^]"]*\] "[^"]*" {status}( |$)', f"requests answered {status}"
    )


def read_words(line: bytes) -> Reading | None:
    """Read a line as words between single spaces; JSON's are left to JSON."""
    words = line.split(b" ")
    if b"{" in words[0]:
        return None
    parts, length, is_error, last, end = list[str](), 0, False, b"", "$"
    for unit in _units(words):
        is_error = is_error or _tells_error(unit.kept, last, is_first=not parts)
        parts.append(unit.expression)
        last = unit.kept
        length += len(unit.expression) + 1
        if length > LONGEST and unit.has_next:
            end = " "
            break
    if not is_error:
        return None
    return Reading(f"^{_shortened(' '.join(parts))}{end}", _title(parts))


@dataclass(frozen=True, slots=True)
class _Unit:
    expression: str
    kept: bytes
    """The word if it stands for itself, nothing if it is masked."""
    has_next: bool


def _units(words: list[bytes]) -> Iterator[_Unit]:
    """Yield the words; a month is one unit with the word after it.

    Syslog pads the day of the month with a space, which would make two kinds of one.
    """
    place = 0
    while place < len(words):
        word = words[place]
        if _MONTH.fullmatch(word):
            place = _next_word(words, place)
            day = f"+{mask_word(words[place])}" if place < len(words) else "*"
            yield _Unit(f"{MONTH} {day}", b"", place + 1 < len(words))
        elif _WEEKDAY.fullmatch(word):
            yield _Unit(WEEKDAY, b"", place + 1 < len(words))
        else:
            masked = mask_word(word, without="{" if place == 0 else "")
            kept = word if masked == escape(word) else b""
            yield _Unit(masked, kept, place + 1 < len(words))
        place += 1


def _next_word(words: list[bytes], place: int) -> int:
    return next((n for n in range(place + 1, len(words)) if words[n]), len(words))


def _tells_error(word: bytes, last: bytes, *, is_first: bool) -> bool:
    """Say whether the word makes its line an error: a level, or an exception at the line's head."""
    if _BARE_LEVEL.fullmatch(word):
        return True
    if _RAISED.fullmatch(word) and (is_first or last == b"by:"):
        return True
    dressed = _DRESSED_LEVEL.fullmatch(word)
    return dressed is not None and is_severe(next(filter(None, dressed.groups())))


def _shortened(expression: str) -> str:
    """Write masks in a row as one mask and a number."""
    return _MASKS_IN_A_ROW.sub(
        lambda row: f"({WORD} ){{{len(row.group()) // len(f'{WORD} ')}}}", expression
    )


def _title(parts: list[str]) -> str:
    titles = [shown(part) for part in parts]
    varies_until = next((n for n, title in enumerate(titles) if title not in {"#", ""}), 0)
    return " ".join(titles[varies_until:])
