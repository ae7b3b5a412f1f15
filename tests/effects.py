"""Marks that tools leave in the world, outside Redis: what they did can be counted afterwards."""

import os
from collections import Counter
from pathlib import Path

import loops as ai

VARIABLE = "LOOPMILL_TEST_EFFECTS"
"""Names the file of the marks in the environment of the workers."""


def mark(context: ai.ToolContext, name: str) -> None:
    """Leave a mark: who did what, in which attempt, in which process."""
    with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(f"{context.idempotency_key} {name} {context.attempt} {os.getpid()}\n")


def effects_in(folder: Path) -> Path:
    """Return where the marks of a test stand, whose own folder is given."""
    return folder / "effects"


def read_effects(path: Path) -> list[tuple[str, str]]:
    """Return each mark's idempotency key and name, in order; none when there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


def count_effects(path: Path) -> Counter[tuple[str, str]]:
    """Return how often each idempotency key had each effect."""
    return Counter(read_effects(path))
