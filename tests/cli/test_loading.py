"""The user's app, imported: its files, or what is wrong with it in a line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.loading import Loaded, load, load_elsewhere

WHOLE = "import helping\nimport json\nimport loops as ai\napp = ai.App()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def loaded(folder: Path, app: str, helping: str = "") -> Loaded:
    (folder / "their_app.py").write_text(app)
    (folder / "helping.py").write_text(helping)
    return load_elsewhere("their_app:app", dict(os.environ))


def test_a_whole_app_has_its_files_and_no_others(folder: Path) -> None:
    came = loaded(folder, f"print('hello')\n{WHOLE}")

    assert came.problem is None
    assert {Path(file).name for file in came.files} == {"their_app.py", "helping.py"}


@pytest.mark.parametrize(
    ("app", "helping", "problem"),
    [
        ("x = 1\nx = = 2", "", "their_app.py line 2: SyntaxError: invalid syntax"),
        (WHOLE, "1 / 0", "helping.py line 1: ZeroDivisionError: division by zero"),
        (WHOLE, "import json\njson.loads('')", "helping.py line 2: JSONDecodeError: Expecting"),
        ("import sys\nsys.exit(3)", "", "their_app.py line 2: SystemExit: 3"),
        ("import not_there", "", "their_app.py line 1: ModuleNotFoundError: No module named"),
        ("from json import x", "", "their_app.py line 1: ImportError: cannot import name 'x'"),
        ("import loops\n\nloops.App({'a': 1})", "", "their_app.py line 3: SetupError: the agent"),
        ("raise ValueError('a\\nb')", "", "their_app.py line 1: ValueError: a b"),
        ("other = 1", "", "'their_app:app': 'their_app' has no 'app'"),
        ("app = 1", "", "'their_app:app' is no ai.App, but 1; name the app itself"),
        ("import os\nos._exit(4)", "", "importing 'their_app:app' ended the process with code 4"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_users_own(
    folder: Path, app: str, helping: str, problem: str
) -> None:
    came = loaded(folder, app, helping)

    assert came.problem is not None
    assert came.problem.startswith(problem)
    assert "\n" not in came.problem


def test_the_files_of_a_broken_app_are_known_too(folder: Path) -> None:
    came = loaded(folder, WHOLE, "1 / 0")

    assert {Path(file).name for file in came.files} >= {"helping.py"}


def test_ctrl_c_in_an_import_is_no_fault_of_the_app(folder: Path) -> None:
    (folder / "impatient.py").write_text("raise KeyboardInterrupt")
    sys.path.append(str(folder))
    try:
        with pytest.raises(KeyboardInterrupt):
            load("impatient:app")
    finally:
        sys.path.remove(str(folder))


def test_an_interrupt_ends_a_command_by_its_code_wherever_it_hits(tmp_path: Path) -> None:
    """Python makes the methods of dataclasses of text: what hits it there is dealt with as well."""
    (tmp_path / "shop.py").write_text("exec('raise KeyboardInterrupt')\n")
    command = [sys.executable, "-P", "-m", "api", "check"]
    environment = {**os.environ, "LOOPMILL_APP": "shop:app"}

    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)

    assert ended.returncode == 130
