"""What is logged of a loop's work: one JSON object a row, what it cost and how long it took.

A run that is resumed logs nothing twice. Neither what was said nor what tools gave is ever in it.
"""

import logging
from collections.abc import Mapping
from typing import Any

import orjson

from loops.context import Context
from loops.jsonable import jsonable

logger = logging.getLogger("loopmill.kit")


def log(context: Context, level: str, fields: Mapping[str, Any]) -> None:
    """Log a row of a kind: usage, tool_call, compaction, title."""
    told = {"level": level, "run": context.run, "chat_id": context.chat_id, **fields}
    logger.info("· %s", orjson.dumps(jsonable(told)).decode())
