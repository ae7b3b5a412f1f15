"""What our providers came to with other people's servers, and of which code that was said.

A checkout has no times, so a result tells its age by a digest of what it was made of: the
providers, and these checks themselves.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.peers.providers.servers import versions

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PATH = HERE / "result.json"
SUFFIXES = {".py", ".json", ".yaml"}


def digest() -> str:
    """Return what stands for the code that a result is of, whatever the order of its files."""
    whole = hashlib.sha256()
    for path in sorted(_files()):
        whole.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _files() -> Iterable[Path]:
    yield from (ROOT / "loops" / "providers").glob("*.py")
    yield from (ROOT / "loops" / name for name in ("model.py", "reply.py", "port_failures.py"))
    yield from (each for each in HERE.iterdir() if each.suffix in SUFFIXES and each != PATH)
    yield from (HERE.parent / name for name in ("litellm.txt", "package.json"))


def load() -> Mapping[str, Any]:
    """Return the result that was kept."""
    told: Mapping[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return told


def keep(outcomes: Mapping[str, str]) -> None:
    """Write the outcomes down, beside those that were kept of the very same code."""
    before = load() if PATH.is_file() else {}
    checks: dict[str, dict[str, str]] = before["checks"] if before.get("digest") == digest() else {}
    for name, outcome in outcomes.items():
        check, _, case = name.rstrip("]").partition("[")
        checks.setdefault(check, {})[case] = outcome
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "digest": digest(),
        "servers": versions(),
        "checks": {check: dict(sorted(cases.items())) for check, cases in sorted(checks.items())},
    }
    PATH.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def checks() -> set[str]:
    """Return the names of the checks that there are."""
    return {
        node.name
        for path in HERE.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }
