"""Every block of the README runs, and says what it is shown to say."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.app import STREAMS, create_app
from api.children import Children
from loops.app import App
from loops.providers.vendors import vendors_table
from tests.readme import README, ROOT, Reader, blocks, drawn, pattern_of
from worker.configuration import read_configuration
from worker.settings import Settings, settings_table

TEXT = README.read_text(encoding="utf-8")
BLOCKS = list(blocks(TEXT))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with Children() as children:
        yield Reader(tmp_path, port, children)


@pytest.mark.documents
@pytest.mark.timeout(240)
def test_every_block_runs_and_says_what_is_shown(reader: Reader) -> None:
    for block in BLOCKS:
        if block.language == "python":
            reader.write(block)
            continue
        for command, shown in block.commands if block.language == "console" else ():
            said = reader.type(command)
            told = drawn(said) if command == "make demo" else said
            wanted = map(drawn, shown) if command == "make demo" else shown
            assert re.fullmatch(pattern_of(list(wanted)), told), f"$ {command}\n{said}"


def test_blocks_are_of_kinds_that_are_tried() -> None:
    assert {block.language for block in BLOCKS} == {"python", "console", "text"}
    assert len([block for block in BLOCKS if block.language == "text"]) == 1


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda b: b.file_name
)
def test_python_is_as_strictly_written_as_our_own(block: object, tmp_path: Path) -> None:
    compile(block.body, block.file_name, "exec")  # type: ignore[attr-defined]  # it is a Block

    assert re.fullmatch(r"\w+\.py", block.file_name)  # type: ignore[attr-defined]  # it is a Block


def table_in(text: str) -> list[str]:
    return text.partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0].splitlines()


def test_the_table_of_settings_is_the_one_that_the_program_makes() -> None:
    written = table_in((ROOT / "docs" / "settings.md").read_text(encoding="utf-8"))

    assert written == settings_table().splitlines()


def test_the_settings_that_people_set_are_rows_of_that_table() -> None:
    rows = table_in(TEXT)

    assert len(rows) == 2 + 6
    assert [row for row in settings_table().splitlines() if row in rows] == rows


def test_the_routes_that_are_named_exist() -> None:
    named = set(re.findall(r"`?(/(?:v1|healthz|readyz|metrics)[^`?]*)", routes_of(TEXT)))

    assert named
    assert {path.replace("{id}", "x") for path in named} - existing_paths() == set()


def routes_of(text: str) -> str:
    """The first column of the table of routes, each `…` written out."""
    rows = re.findall(r"^\| (`(?:GET|POST).*?`) \|", text, re.MULTILINE)
    return "\n".join(re.sub(r"`…(/\w+)", rf"`{last_path(row)}\1", row) for row in rows)


def last_path(row: str) -> str:
    return re.findall(r"(/v1/\w+/\{id\})", row)[0] if "…" in row else ""


def existing_paths() -> set[str]:
    routes = create_app(Settings(), app=App()).server.openapi()["paths"]
    plain = {re.sub(r"\{\w+\}", "x", path) for path in routes}
    return plain | {re.sub(r"\(.*?\)", "x", path) for path in STREAMS}


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


def test_the_vendors_of_the_documentation_are_those_that_there_are() -> None:
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")

    shown = text.partition("<!-- vendors -->\n")[2].partition("<!-- /vendors -->")[0]

    assert shown.splitlines() == vendors_table().splitlines()


def test_the_configuration_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    file = tmp_path / "config.yaml"
    file.write_text(text.partition("```yaml\n")[2].partition("```")[0])

    configuration = read_configuration(file)

    configuration.check({"GROQ_KEY_OF_TEAM_A": "k"})
    assert [entry.model_name for entry in configuration.model_list] == ["fast", "house"]
