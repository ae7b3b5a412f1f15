"""What one answer takes over from the rounds before its last one: calls, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from loops.blocks import Raw

from .rounds import Outcome, RoundEnd
from .usages import summed

Fingerprint = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A call that the caller is to answer."""

    fingerprint: Fingerprint
    told: Sequence[Raw]
    """How the caller is told of it, in the words of the view that keeps it."""


class Carried:
    """Calls of the caller's own that must not be lost, and the usage of all rounds."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []
        self._usages: list[Raw] = []

    @property
    def is_first(self) -> bool:
        """Whether no round was before this one."""
        return not self._usages

    def after(self, outcome: Outcome, calls: Sequence[Kept], usage: Raw) -> list[Kept] | None:
        """Return the calls that stand behind those of the last round; None after any other.

        Of a round that another one follows its calls and its usage are taken over; a call that the
        model makes again takes the place of its earlier one.
        """
        made = {call.fingerprint for call in calls}
        left = [call for call in self._kept if call.fingerprint not in made]
        match outcome:
            case Outcome.CUT:
                return None
            case Outcome.AGAIN:
                self._kept = [*left, *calls]
                self._usages.append(usage)
                return None
            case Outcome.GIVEN:
                self._kept, self._usages = [], []
                return []
            case Outcome.FINAL | Outcome.CLOSED:
                return left

    def total(self, usage: Raw) -> Raw:
        """Return what all rounds cost together with the last one."""
        return usage if self.is_first else summed([*self._usages, usage])


def hidden_by(end: RoundEnd) -> frozenset[int]:
    """Return the places of the calls that the round's end hides: a final reply is shown whole."""
    hides = end.outcome in {Outcome.AGAIN, Outcome.CLOSED}
    return end.claimed if hides else frozenset[int]()
