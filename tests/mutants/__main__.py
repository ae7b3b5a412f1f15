"""`make mutants`: break a promise of the code, and see that its tests notice.

python -m tests.mutants             every named mutant; each has to be killed
python -m tests.mutants slot key    those whose name has one of the words
python -m tests.mutants drawn       small faults drawn by chance in the pure code (long)
python -m tests.mutants drawn FILE  the same in one file
"""

import sys

from tests.mutants.drawn import try_drawn
from tests.mutants.named import try_named


def main(arguments: list[str]) -> int:
    """Try mutants, and return the exit code."""
    if arguments[:1] == ["drawn"]:
        return try_drawn(arguments[1:])
    return try_named(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
