from pathlib import Path

import pytest

from loops.errors import SetupError
from loops.find import find


def test_an_object_is_found_by_its_path() -> None:
    assert find("loops.find:find") is find
    assert find("loops.find:find.__name__") == "find"


@pytest.mark.parametrize("path", ["", "loops", "loops:", ":find", "loops.find"])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(SetupError, match="named 'module:name'"):
        find(path)


@pytest.mark.parametrize("path", ["nowhere_at_all:app", "loops.nowhere:app"])
def test_a_missing_module_is_named(path: str) -> None:
    with pytest.raises(SetupError, match=f"no module '{path.partition(':')[0]}' here"):
        find(path)


def test_a_missing_name_is_named_with_what_is_near() -> None:
    with pytest.raises(SetupError, match=r"'loops' has no 'Agnet'; did you mean 'Agent'"):
        find("loops:Agnet")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nowhere_at_all", "the module imports 'nowhere_at_all', which is not there"),
        ("from loops import nothing", "cannot be imported: cannot import name 'nothing'"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(
    source: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{len(source)}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(SetupError, match=problem):
        find(f"{name}:app")
