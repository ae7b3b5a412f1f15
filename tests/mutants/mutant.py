"""A named mutant: one promise of the code broken on purpose, and the tests that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault."""

    name: str
    """What is not so any more."""
    file: str
    old: str
    """The text that stands there, once."""
    new: str
    tests: tuple[str, ...]
    """Files of tests, or single tests; one of them at least has to fail."""
