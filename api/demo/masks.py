"""What a word becomes in an expression: itself, or a mask for every word of its kind.

The kinds exclude each other, so that two words share a mask only when both have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_WORD = 80

WORD = "[^ 0-9]*[0-9][^ ]*"
MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
WEEKDAY = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)"

_DIGIT = re.compile(rb"[0-9]")
_SEVERE = re.compile(rb"(?i)error|err|fatal|critical|crit|severe|panic|emerg|emergency|alert")
_SPECIAL = re.compile(r"([.\[{()*+?^$|\\])")
_UNPRINTABLE = re.compile(r"[^ -~]")
_MASKS = re.compile(
    r"\((?:Jan|Mon)\|[^)]*\)(?: [+*])?(?:\[\^ [^]]*\]\*\[0-9\]\[\^ [^]]*\]\*)?"
    r"|\[\^ [^]]*\]\*\[0-9\]\[\^ [^]]*\]\*"
    r"|\[\^ [^]]*\]\{81,\}|\[\^ -~\]"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One error as one way of reading sees it."""

    expression: str
    """For `grep -E`; the same for all lines of the kind, and for no other line."""
    title: str
    """The same for people, with # for what varies."""


def mask_word(word: bytes, *, without: str = "") -> str:
    """Return the expression of a word, which holds none of the characters `without`.

    A word with a digit stands for every word with a digit, a very long word without one for
    every such word, any other for itself (but for bytes outside printable ASCII).
    """
    if _DIGIT.search(word):
        # Up to the first digit, so that a matcher never has two ways to try.
        return f"[^ {without}0-9]*[0-9][^ {without}]*"
    if len(word) > LONGEST_WORD:
        return f"[^ {without}0-9]{{{LONGEST_WORD + 1},}}"
    return escape(word)


def escape(literal: bytes) -> str:
    """Return the expression that matches the bytes, and those that differ in unprintable ones."""
    return _UNPRINTABLE.sub("[^ -~]", _SPECIAL.sub(r"\\\1", literal.decode("latin-1")))


def shown(expression: str) -> str:
    """Return the expression of words as people read it, with # for each mask."""
    return re.sub(r"\\(.)", r"\1", _MASKS.sub("#", expression))


def is_severe(word: bytes) -> bool:
    """Say whether the word names a level at which something failed."""
    return _SEVERE.fullmatch(word) is not None
