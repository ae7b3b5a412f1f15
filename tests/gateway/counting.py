"""The callback of the load test: it notes each of its plans in a file before it answers."""

import asyncio
import json
import os
import re
from typing import Any

from bench.drivers.loopmill_callback import Lookup
from loops.callbacks import AgenticLoopPlan

FILE = "LOAD_NOTES"
"""The environment's name for the file."""
PAUSE = 0.2
"""Seconds that a plan takes, so that a worker may die in the middle of it."""
TAGGED = re.compile(r"tag-\d{8}")


class Counting(Lookup):
    """Answers the calls of a tool, slowly, and writes down which request's and of which round."""

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **more: Any
    ) -> AgenticLoopPlan:
        tag = TAGGED.search(json.dumps(messages))
        assert tag is not None
        depth = more["kwargs"].get("_agentic_loop_depth", 0)
        _note(f"{tag.group()} {depth}\n")
        await asyncio.sleep(PAUSE)
        return await super().async_build_agentic_loop_plan(tools, messages, **more)


def _note(line: str) -> None:
    file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


lookup = Counting()
