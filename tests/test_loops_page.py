"""The page for authors of loops: its code runs, in one process and on workers."""

import re
import socket
from pathlib import Path

import pytest

from api.children import Children
from loops.tools import ToolOptions
from tests.readme import ROOT, Reader, blocks, pattern_of

TEXT = (ROOT / "docs" / "loops.md").read_text(encoding="utf-8")


@pytest.mark.documents
@pytest.mark.timeout(120)
def test_every_block_runs_and_says_what_is_shown(tmp_path: Path) -> None:
    with socket.socket() as probe, Children() as children:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        reader = Reader(tmp_path, port, children)
        for block in blocks(TEXT):
            if block.language == "python":
                reader.write(block)
            for command, shown in block.commands if block.language == "console" else ():
                said = reader.type(command)
                assert re.fullmatch(pattern_of(shown), said), f"$ {command}\n{said}"


@pytest.mark.parametrize(
    "option", sorted(ToolOptions.__annotations__.keys() - {"name", "description"})
)
def test_every_option_of_a_tool_stands_there(option: str) -> None:
    assert re.search(rf"^\| .*`{option}`.* \|", TEXT, re.MULTILINE)
