"""How a process' main coroutine is run, and how the process ends."""

import asyncio
import subprocess
import sys
from pathlib import Path

from worker import event_loop


def test_the_code_of_main_is_the_code_of_the_process():
    async def main() -> int:
        return 3

    assert event_loop.run(main()) == 3


def test_tasks_that_are_left_are_cancelled():
    seen: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("cancelled")

    async def main() -> int:
        tasks.append(asyncio.get_running_loop().create_task(left()))
        await asyncio.sleep(0)
        return 0

    tasks: list[asyncio.Task[None]] = []
    assert event_loop.run(main()) == 0
    assert seen == ["cancelled"]


def test_a_task_that_swallows_its_cancellation_does_not_keep_the_process(shipped: Path):
    program = """
import asyncio, sys
from worker import event_loop

async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def main():
    global task
    task = asyncio.get_running_loop().create_task(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    return 4

sys.exit(event_loop.run(main()))
"""

    ended = subprocess.run([sys.executable, "-c", program], cwd=shipped, timeout=10, check=False)

    assert ended.returncode == 4
