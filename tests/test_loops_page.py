"""The page for authors of loops: its code runs, in one process and on workers."""

import re
from pathlib import Path

import pytest

from loops.tools import ToolOptions
from tests.pages import check_page
from tests.readme import ROOT

TEXT = (ROOT / "docs" / "loops.md").read_text(encoding="utf-8")


@pytest.mark.documents
@pytest.mark.timeout(120)
def test_every_block_runs_and_says_what_is_shown(tmp_path: Path) -> None:
    check_page(TEXT, tmp_path)


@pytest.mark.parametrize(
    "option", sorted(ToolOptions.__annotations__.keys() - {"name", "description"})
)
def test_every_option_of_a_tool_stands_there(option: str) -> None:
    assert re.search(rf"^\| .*`{option}`.* \|", TEXT, re.MULTILINE)
