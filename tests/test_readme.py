"""Every block of the README runs, and says what it is shown to say."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.children import Children
from tests.readme import README, ROOT, Reader, blocks, pattern_of
from worker.settings import settings_table

TEXT = README.read_text(encoding="utf-8")
BLOCKS = list(blocks(TEXT))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with Children() as children:
        yield Reader(tmp_path, port, children)


@pytest.mark.timeout(240)
def test_every_block_runs_and_says_what_is_shown(reader: Reader) -> None:
    for block in BLOCKS:
        if block.language == "python":
            reader.write(block)
            continue
        for command, shown in block.commands if block.language == "console" else ():
            said = reader.type(command)
            assert re.fullmatch(pattern_of(shown), said), f"$ {command}\n{said}"


def test_blocks_are_of_kinds_that_are_tried() -> None:
    assert {block.language for block in BLOCKS} == {"python", "console", "text"}
    assert len([block for block in BLOCKS if block.language == "text"]) == 1


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda b: b.file_name
)
def test_python_is_as_strictly_written_as_our_own(block: object, tmp_path: Path) -> None:
    compile(block.body, block.file_name, "exec")  # type: ignore[attr-defined]  # it is a Block

    assert re.fullmatch(r"\w+\.py", block.file_name)  # type: ignore[attr-defined]  # it is a Block


def test_the_table_of_settings_is_the_one_that_the_program_makes() -> None:
    shown = TEXT.partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0]

    assert shown.strip() == settings_table().strip()


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 250


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", TEXT) if "://" not in link]

    assert links != []
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_adjective_stands_where_a_number_should() -> None:
    empty = r"\b(fast|blazing|powerful|robust|scalable|lightweight|modern|elegant|seamless\w*)\b"

    assert re.findall(empty, TEXT, re.IGNORECASE) == []


@pytest.mark.parametrize(
    ("shown", "said", "matches"),
    [
        (["a", "…", "c"], "a\nb\nb\nc\n", True),
        (["a", "…", "c"], "a\nc\n", True),
        (["run_… (x)"], "run_1 (x)\n", True),
        (["run_… (x)"], "run_1 [x]\n", False),
        (["a"], "a\nb\n", False),
        ([], "", True),
    ],
)
def test_shown_output_is_compared(shown: list[str], said: str, *, matches: bool) -> None:
    assert bool(re.fullmatch(pattern_of(shown), said)) is matches
