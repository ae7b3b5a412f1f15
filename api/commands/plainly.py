"""How commands say what went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from api.children import ChildError
from api.client import ApiError
from loops.errors import AgentError, SetupError
from worker.embedded import ServerStartError
from worker.settings import SettingsError

EXPECTED = (AgentError, ApiError, ChildError, ServerStartError, SettingsError, OSError)
"""What may go wrong without a fault of ours: said in a line, not in a traceback."""

WRONGLY_SET_UP = 2
INTERRUPTED = 130
READER_GONE = 141


@contextmanager
def said_plainly() -> Generator[None]:
    """Say what went wrong in a line, and exit as programs do.

    1 is a failure, 2 a wrong set-up, which only a person mends; 130 is Ctrl-C.
    """
    try:
        yield
    except BrokenPipeError:
        # Whoever read us has read enough; nothing may be written any more, not even at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)
    except EXPECTED as error:
        sys.stderr.write(f"loopmill: {error}\n")
        sys.exit(WRONGLY_SET_UP if isinstance(error, SetupError | SettingsError) else 1)
    except KeyboardInterrupt:
        sys.stderr.write("\nloopmill: interrupted\n")
        sys.exit(INTERRUPTED)
