"""What `docs/performance.md` shows is what was measured."""

from bench.goals import table
from bench.measuring import RESULTS
from tests.readme import ROOT


def test_the_goals_stand_beside_the_figures_that_were_kept() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")

    shown = text.partition("<!-- goals -->\n")[2].partition("\n<!-- /goals -->")[0]

    assert shown == table()


def test_so_do_those_of_a_slower_machine() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")

    shown = text.partition("<!-- slower -->\n")[2].partition("\n<!-- /slower -->")[0]

    assert shown == table(RESULTS / "slower")
