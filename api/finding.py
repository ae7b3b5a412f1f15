"""One line of what `loopmill check` says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    text: str
    is_problem: bool = False
