"""A view that shows nothing of a round before it is known what becomes of it; pure."""

from collections.abc import Callable, Sequence
from itertools import dropwhile
from typing import Protocol

from .carried import Carried
from .json_rows import told_by
from .rounds import Outcome, RoundEnd
from .rows import Row


class View(Protocol):
    """What a caller gets of the rounds, as they come."""

    @property
    def has_shown(self) -> bool:
        """Whether anything was returned that the caller cannot unsee."""
        ...

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return what is sent when these rows of the open round have come."""
        ...

    def end(self, end: RoundEnd) -> list[Row]:
        """Return what is sent when the round has ended."""
        ...

    def reset(self) -> bool:
        """Forget the open round, which begins anew; False where the caller has something of it."""
        ...


class Held:
    """The last round alone, when it is over; word for word where nothing must be another."""

    def __init__(self, show: Callable[[Carried, RoundEnd], View]) -> None:
        self.has_shown = False
        self._show = show
        """Makes the view of a round whose end is known."""
        self._carried = Carried()
        self._rows: list[Row] = []

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return nothing."""
        self._rows += rows
        return []

    def end(self, end: RoundEnd) -> list[Row]:
        """Return the round if it is the last one."""
        held, self._rows = self._rows, []
        shown = self._shown(held, end)
        self.has_shown = self.has_shown or bool(shown)
        return shown

    def reset(self) -> bool:
        """Forget the open round."""
        self._rows = []
        return True

    def _shown(self, held: list[Row], end: RoundEnd) -> list[Row]:
        match end.outcome:
            case Outcome.CUT:
                return list(dropwhile(lambda row: not _tells_error(row), held))
            case Outcome.GIVEN:
                return held
            case Outcome.FINAL if self._carried.is_first:
                return held
            case outcome:
                view = self._show(self._carried, end)
                shown = view.rows(held) + view.end(end)
                return [] if outcome is Outcome.AGAIN else shown


def _tells_error(row: Row) -> bool:
    """Say whether the row tells that the provider failed."""
    if row[0] == "error":
        return True
    # Only a row that may be one is read.
    return '"error"' in row[1] and bool(told_by(row).get("error"))
