"""What a caller who does not stream gets of the rounds; pure."""

from collections.abc import Sequence

from loops.blocks import Raw

from .folds import folded, unfolded
from .rounds import Mode, Outcome, Round, Surface
from .rows import Row
from .views import view_of


def plain_body(surface: Surface, rounds: Sequence[Round], mode: Mode) -> Raw:
    """Return the one body of an answer: the stream of the same rounds and mode, folded.

    In the mode that shows each round by itself it is the last one, as when they are held back. The
    body of a round that is the only one is untouched, so its calls may stand between its text,
    where a merged stream tells them last. A last round that was cut has no body to give.
    """
    if is_untouched(rounds):
        return rounds[-1].body
    view = view_of(surface, Mode.MERGED if mode is Mode.MERGED else Mode.HOLD)
    rows: list[Row] = []
    for each in rounds:
        rows += view.rows(unfolded(surface, each.body))
        rows += view.end(each.end)
    return folded(surface, rows)


def is_untouched(rounds: Sequence[Round]) -> bool:
    """Say whether the last round's body is the answer as it stands."""
    outcome = rounds[-1].end.outcome
    is_alone = len(rounds) == 1 and outcome is Outcome.FINAL
    return is_alone or outcome in {Outcome.GIVEN, Outcome.CUT}
