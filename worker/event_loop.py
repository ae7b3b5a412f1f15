"""Running a process' main coroutine, on uvloop where it is installed."""

import asyncio
import gc
import importlib
import importlib.util
import logging
import os
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

logger = logging.getLogger(__name__)

STRAGGLERS = timedelta(seconds=1)
"""How long tasks that are left may take to end, when the main coroutine is done."""

ALLOCATIONS = 20_000
"""How many more objects than were freed let Python look for cycles. By itself it looks after 700:
that took a sixth of a run worker's time, and nearly all objects of a run are freed by counting."""


def look_rarely() -> None:
    """Let Python look for cycles less often, and not at what is loaded by now: that stays."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, 5, 5)


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run the coroutine, and return what it returns: the code with which the process exits.

    Code that swallows its cancellation would keep the process for ever. When such tasks are left,
    the process exits here, with that code.
    """
    uvloop = importlib.import_module("uvloop") if importlib.util.find_spec("uvloop") else None
    factory = None if uvloop is None else uvloop.new_event_loop
    look_rarely()
    with asyncio.Runner(loop_factory=factory) as runner:
        code = runner.run(main)
        if left := runner.run(_end_stragglers()):
            logger.warning("! tasks that do not end are left behind: %s", ", ".join(left))
            logging.shutdown()
            os._exit(code)
        return code


async def _end_stragglers() -> list[str]:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=STRAGGLERS.total_seconds())
    return [task.get_name() for task in left]
