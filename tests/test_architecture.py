"""The shape of the code: sizes, names, imports, the wheel, the public face."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import api
import loops
import worker

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("api", "worker", "loops")
FORBIDDEN = frozenset(
    {
        *("utils", "util", "helpers", "common", "base", "core"),
        *("types", "constants", "models", "manager", "service"),
    }
)
IGNORE = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)(?::\s*[A-Z0-9, ]+|\[[^\]]*\])?")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if ".envs" not in path.parts]


def functions(path: Path) -> Iterator[FunctionNode]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, FunctionNode):
            yield node


def too_long(folders: tuple[str, ...], limit: int) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources(*folders)
        for node in functions(path)
        if (node.end_lineno or node.lineno) - node.lineno + 1 > limit
    ]


def test_no_function_is_longer_than_40_lines() -> None:
    assert too_long(FLOORS, 40) == []


def test_no_test_is_longer_than_25_lines() -> None:
    assert [name for name in too_long(("tests",), 25) if " test_" in name] == []


def test_nine_functions_of_ten_have_at_most_20_lines() -> None:
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources(*FLOORS)
        for node in functions(path)
    )

    assert lengths[len(lengths) * 9 // 10] <= 20


def test_no_file_is_longer_than_300_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources(*FLOORS, "bench", "examples")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 300
    }

    assert long == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    nameless = [
        str(path.relative_to(ROOT))
        for path in sources(*FLOORS)
        if path.stem in FORBIDDEN and path.relative_to(ROOT) != Path("loops/util.py")
    ]

    assert nameless == []


def imports_inside(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))


def test_imports_stand_at_the_top_for_everyone_to_see() -> None:
    hidden = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources(*FLOORS)
        for node in functions(path)
        if imports_inside(node)
    ]
    typed_only = [
        str(path.relative_to(ROOT))
        for path in sources(*FLOORS)
        if "TYPE_CHECKING" in path.read_text(encoding="utf-8")
    ]

    assert (hidden, typed_only) == ([], [])


def test_a_floor_imports_only_itself_and_the_floors_below() -> None:
    upwards = [
        f"{path.relative_to(ROOT)} imports {name}"
        for height, floor in enumerate(FLOORS)
        for path in sources(floor)
        for name in imported(path)
        if name in FLOORS[:height]
    ]

    assert upwards == []


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_toolkit_knows_no_queue_and_no_server() -> None:
    strangers = {"redis", "arq", "fastapi", "starlette", "uvicorn", "click", "rich"}

    known = {str(path): imported(path) & strangers for path in sources("loops")}

    assert {path: names for path, names in known.items() if names} == {}


def test_every_fault_of_a_users_code_is_caught_in_one_file() -> None:
    broad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources(*FLOORS)
        if path != ROOT / "loops" / "guard.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    ]

    assert broad == []


def catches_all(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    named = ast.unparse(handler.type) if handler.type else "BaseException"
    return bool(re.search(r"\b(Base)?Exception\b", named))


@pytest.mark.parametrize("package", [api, worker, loops], ids=FLOORS)
def test_the_three_names_mean_this_checkout(package: object) -> None:
    assert Path(str(package.__file__)).parent.parent == ROOT  # type: ignore[attr-defined]  # a module has it


def test_every_package_says_that_it_is_typed() -> None:
    assert [floor for floor in FLOORS if not (ROOT / floor / "py.typed").is_file()] == []


def test_the_public_names_of_the_toolkit_are_sorted_and_there() -> None:
    names = list(loops.__all__)

    assert names == sorted(names)
    assert [name for name in names if not hasattr(loops, name)] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl"))).namelist()


def test_the_wheel_has_every_file_of_the_three_floors(wheel: list[str]) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.suffix in {".py", ".lua", ".typed"} and ".mypy_cache" not in path.parts
    }

    assert wanted - set(wheel) == set()


def test_the_wheel_has_nothing_else(wheel: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    odd = [name for name in wheel if "cache" in name or name.endswith(".pyc")]

    assert {top for top in tops if not top.endswith(".dist-info")} == set(FLOORS)
    assert odd == []


def ignored_lines() -> list[str]:
    here = Path(__file__)
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in sources(*FLOORS, "tests", "bench", "examples")
        if path != here
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if IGNORE.search(line)
    ]


def ignored_rules() -> list[str]:
    """The lines of pyproject.toml that switch a lint rule off."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = text[text.index("[tool.ruff.lint]") :]
    whole = re.findall(r"^ignore = \[(.*?)^\]", lint, re.MULTILINE | re.DOTALL)
    groups = re.findall(r'^"[^"]+\*\*" = \[(.*?)\](.*)$', lint, re.MULTILINE | re.DOTALL)
    assert whole
    assert groups
    return [line for block in whole for line in block.splitlines() if line.strip()]


def test_a_rule_is_switched_off_for_all_only_with_a_reason() -> None:
    rules = ignored_rules()

    assert len(rules) <= 10
    assert [line for line in rules if len(line.partition("#")[2].strip()) < 5] == []
