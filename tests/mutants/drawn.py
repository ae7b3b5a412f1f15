"""`python -m tests.mutants drawn`: break the pure code in small ways drawn by chance.

A mutant that no test notices is printed. Most are worth a test; a few mean the same as before.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent.parent
MOST = 12
"""How many mutants of a file are tried, drawn by a fixed seed."""

WANTED = 0.8
"""The share that must be noticed."""

TARGETS = {
    "loops/default.py": "tests/loops/test_default.py",
    "loops/fold.py": "tests/loops/test_fold.py",
    "loops/history.py": "tests/loops/test_history.py",
    "loops/wire.py": "tests/loops/test_wire.py",
    "loops/messages.py": "tests/loops/test_messages.py",
    "worker/keys.py": "tests/worker/test_keys.py",
    "worker/verdict.py": "tests/worker/test_verdict.py",
    "worker/run_record.py": "tests/worker/test_run_record.py",
    "worker/settings.py": "tests/worker/test_settings.py",
    "worker/snapshot.py": "tests/worker/test_snapshot.py",
    "api/sse.py": "tests/api/test_sse.py",
    "api/cursors.py": "tests/api/test_cursors.py",
    "api/demo/expressions.py": "tests/demo/test_expressions.py",
    "api/demo/json_lines.py": "tests/demo/test_expressions.py",
    "api/demo/report.py": "tests/demo/test_report.py",
    "api/demo/story.py": "tests/demo/test_story.py",
}


def try_drawn(files: Sequence[str]) -> int:
    """Try the mutants of all files, or of those that are named; return the exit code."""
    named = files or list(TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        away = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "node_modules")
        shutil.copytree(ROOT, copy, ignore=away)
        tried = noticed = 0
        for name in named:
            survivors, count = _try_file(copy, name)
            tried, noticed = tried + count, noticed + count - len(survivors)
            sys.stdout.write(f"{name}: {count - len(survivors)} of {count} noticed\n")
            for mutant in survivors:
                sys.stdout.write(f"  line {mutant.line}: {mutant.change}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{noticed} of {tried} mutants were noticed\n")
    return 0 if tried and noticed / tried >= WANTED else 1


def _try_file(copy: Path, name: str) -> tuple[list[Mutant], int]:
    """Return the file's mutants that its tests do not notice, and how many were tried."""
    path, tests = copy / name, TARGETS[name]
    source = path.read_text(encoding="utf-8")
    if not _passes(copy, tests):
        sys.exit(f"{tests} fails without any mutant: mend that first")
    all_ = list(mutants(source))
    drawn = random.Random(name).sample(all_, min(MOST, len(all_)))
    survivors = list[Mutant]()
    for mutant in drawn:
        path.write_text(mutant.source, encoding="utf-8")
        if _passes(copy, tests):
            survivors.append(mutant)
    path.write_text(source, encoding="utf-8")
    return survivors, len(drawn)


def _passes(copy: Path, tests: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=30, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
