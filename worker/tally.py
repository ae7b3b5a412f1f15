"""What a pass counts while its loop goes on: text and cost, replayed turns included."""

from __future__ import annotations

from loops.events import Event, TextDelta
from loops.messages import Usage


class Tally:
    """The sums of one pass; each pass counts anew from the loop's beginning."""

    def __init__(self) -> None:
        self._texts: dict[int | None, list[str]] = {}
        self.last_turn: int | None = None
        """The number of the turn that was asked for last."""
        self.usage: Usage | None = None

    def add(self, event: Event) -> None:
        """Count a yield; text that names no turn belongs to the last one."""
        if isinstance(event, TextDelta):
            turn = event.turn if event.turn is not None else self.last_turn
            self._texts.setdefault(turn, []).append(event.text)

    def add_usage(self, usage: Usage | None) -> None:
        """Count what a turn has cost; None where the provider did not say."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    @property
    def output(self) -> str:
        """The text that was published in the last turn."""
        return "".join(self._texts.get(self.last_turn, []))
