"""All benchmarks, one after the other: `make bench`, or `python -m bench [--quick]`."""

from __future__ import annotations

import subprocess
import sys

from .measuring import ROOT

ALL = ("queue", "runs", "streams", "memory", "growth", "providers", "sessions", "gateway")


def main() -> int:
    """Measure everything; return how many benchmarks failed."""
    failed = []
    for name in ALL:
        print(f"\n=== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *sys.argv[1:]]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "\nall is measured; see bench/results")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
