"""Tries each named mutant in a copy of the tree: its tests are green without it, and red with it.

The work tree is never touched. A mutant whose text is not found any more fails the whole: the code
has moved on, and the table has to follow.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.of_code import OF_CODE
from tests.mutants.of_gateway import GATEWAY
from tests.mutants.of_scripts import OF_SCRIPTS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "mutants.json"
MUTANTS = (*OF_SCRIPTS, *OF_CODE, *GATEWAY)
TESTS_FAILED = 1
"""pytest's exit code when tests ran and some of them failed; an import that breaks is another."""
LIMIT = 120
"""Seconds that the tests of one mutant may take; one that makes them hang is noticed, too."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a mutant."""

    mutant: Mutant
    verdict: str
    """`killed`, or why not: `survived`, `not found`, `broken`."""
    seconds: float


def try_named(wanted: Sequence[str]) -> int:
    """Try all mutants, or those whose name has one of the words; return the exit code."""
    chosen = [m for m in MUTANTS if not wanted or any(word in m.name for word in wanted)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        away = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "node_modules")
        shutil.copytree(ROOT, copy, ignore=away)
        if not _are_green(copy, sorted({test for mutant in chosen for test in mutant.tests})):
            return 1
        tried = [_tell(_try(copy, mutant)) for mutant in chosen]
    killed = sum(each.verdict == "killed" for each in tried)
    _say(f"{killed} of {len(tried)} mutants were killed")
    if not wanted:
        _write(tried)
    return 0 if killed == len(tried) else 1


def _are_green(copy: Path, tests: Sequence[str]) -> bool:
    code, output = _run(copy, tests)
    if code != 0:
        _say(f"{output}\nthe tests fail without any mutant: mend that first")
    return code == 0


def _try(copy: Path, mutant: Mutant) -> Tried:
    path, began = copy / mutant.file, time.monotonic()
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        return Tried(mutant, "not found", 0.0)
    path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, _ = _run(copy, mutant.tests)
    finally:
        path.write_text(source, encoding="utf-8")
    verdict = {0: "survived", TESTS_FAILED: "killed"}.get(code, "broken")
    return Tried(mutant, verdict, time.monotonic() - began)


def _run(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", "20"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT * (1 if len(tests) < 5 else 5),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, "the tests did not end in time"
    return done.returncode, done.stdout


def _tell(tried: Tried) -> Tried:
    _say(f"{tried.verdict:9} {tried.seconds:5.1f} s  {tried.mutant.name}  ({tried.mutant.file})")
    return tried


def _write(tried: Sequence[Tried]) -> None:
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "killed": sum(each.verdict == "killed" for each in tried),
        "mutants": [
            {
                "name": each.mutant.name,
                "file": each.mutant.file,
                "tests": list(each.mutant.tests),
                "verdict": each.verdict,
                "seconds": round(each.seconds, 1),
            }
            for each in tried
        ],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
