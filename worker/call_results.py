"""The one result of a call: recorded once, whoever gives it; and the words where there is none."""

from __future__ import annotations

import orjson

from loops.messages import ToolResult

from .calls import RunPlace
from .insist import insist
from .link import Link
from .queue import Claim

LOST = (
    "LostTool: the worker that ran this tool died; it may or may not have had its effect, "
    "so it was not run again"
)
POISONED = "WorkerLost: three workers died in a row over this call; it is given up"
CANCELLED = "cancelled: somebody stopped this call; it may or may not have had its effect"
DRAINED = (
    "LostTool: the worker that ran this tool was shut down before the tool ended; it may or may "
    "not have had its effect"
)


async def finish_call(
    link: Link, place: RunPlace, claim: Claim, state: str, result: ToolResult
) -> bool:
    """Record a call's one result and give the claim up; say whether it was the first result."""
    claim.released = True
    lost = orjson.dumps([{"type": "tool.lost", "data": {"call": result.call}}])
    code: int = await insist(
        link,
        "finish_tool",
        keys=[place.record],
        arguments=[
            claim.queue,
            claim.job_id,
            claim.token,
            result.call,
            state,
            result.encode(),
            lost if state == "lost" else b"",
        ],
    )
    return code == 1


async def fail_unbegun(
    link: Link, place: RunPlace, claim: Claim, *, key: str, message: str
) -> None:
    """Answer a call whose job will never run with an error."""
    result = ToolResult(key, "", "", f"ToolFailed: {message}", is_error=True)
    await finish_call(link, place, claim, "done", result)
