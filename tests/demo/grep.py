"""What grep says, which knows nothing of us."""

import os
import subprocess
from pathlib import Path


def grep_count(expression: str, *files: Path) -> int:
    """Return how many lines of the files `grep -cE` counts, byte by byte (LC_ALL=C)."""
    command = ["grep", "-hcE", "-e", expression, "--", *map(str, files)]
    environment = {**os.environ, "LC_ALL": "C"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.stderr == ""
    return sum(int(line) for line in said.stdout.split())
