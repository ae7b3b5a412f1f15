"""A worker in a process of its own; its words are the server's URL, lease, slots and stall.

Its jobs note in Redis what they do, so that a test sees it from outside.
"""

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

from tests.worker.workshop import make_worker, settings
from worker import event_loop
from worker.functions import job_function
from worker.link import open_link

NOTES = "notes"
"""A list of `<what> <name> <pid>`."""


async def note(ctx: dict[str, Any], name: str, what: str = "did") -> None:
    """Note that the job ran."""
    await ctx["link"].command("RPUSH", NOTES, f"{what} {name} {os.getpid()}")
    await ctx["link"].command("EXPIRE", NOTES, 600)


async def last(ctx: dict[str, Any], name: str, seconds: float) -> None:
    """Take some time."""
    await note(ctx, name, "began")
    await asyncio.sleep(seconds)
    await note(ctx, name, "ended")


async def linger(ctx: dict[str, Any], name: str, seconds: float) -> None:
    """Take some time, unless somebody has taken it before."""
    await last(ctx, name, seconds if ctx["claim"].lapses == 0 else 0.5)


async def block(ctx: dict[str, Any], name: str, seconds: float) -> None:
    """Hold up the whole event loop for some time, unless somebody did so before."""
    await note(ctx, name, "began")
    if ctx["claim"].lapses == 0:
        time.sleep(seconds)  # noqa: ASYNC251 - that is the point
    await asyncio.sleep(0.5)
    await note(ctx, name, "ended")


async def main() -> int:
    """Work until told to stop."""
    url, lease, slots, stall = sys.argv[1:]
    told = settings(
        lease=timedelta(seconds=float(lease)),
        stall=timedelta(seconds=float(stall)),
    )
    functions = [job_function(f, name=f.__name__) for f in (note, last, linger, block)]
    async with open_link(url) as link:
        worker = make_worker(link, functions, told=told, concurrency=int(slots), ctx={"link": link})
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.main()
    return 0


if __name__ == "__main__":
    sys.exit(event_loop.run(main()))
