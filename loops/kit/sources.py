"""The tools of servers: asked for when a run begins, once."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from loops.guard import Raised, outcome_of

from .events import callout
from .kit_run import KitRun


async def discovered(run: KitRun) -> AsyncIterator[Any]:
    """Let the model be offered the servers' tools; yield a word of each that does not answer."""
    found: list[dict[str, Any]] = []
    for server in run.options.mcp:
        ask = partial(run.context.step, f"mcp:{server.name}", server.discover)
        outcome = await outcome_of(ask)
        if isinstance(outcome, Raised):
            text = f"The tools of {server.name!r} are not there now; the run goes on without them."
            yield callout(text, "warning")
        else:
            found += outcome
    if found:
        run.tools = run.options.offered(found)
