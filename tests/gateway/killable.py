"""A callback for workers that are killed: it notes each of its plans, and who makes it."""

import asyncio
import os
from typing import Any

from loops.callbacks import AgenticLoopPlan, CustomLogger
from tests.gateway.rounds_in_process import again, calls_of

NOTES = "KILLABLE_NOTES"
"""The environment's name for the file of its notes, a line a plan: process and what was asked."""

FOREVER = "stay"
"""Whoever asks this gets a plan that is never finished."""


class Killable(CustomLogger):
    """Answers the calls of the tool `ours`."""

    async def async_should_run_agentic_loop(self, response: Any, **_: Any) -> Any:
        calls = calls_of(response, "ours")
        return bool(calls), {"tool_calls": calls}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **_: Any
    ) -> AgenticLoopPlan:
        said = messages[0]["content"]
        file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{os.getpid()} {said}\n".encode())
        os.close(file)
        if said.startswith(FOREVER):
            await asyncio.Event().wait()
        return again(tools, messages)


killable = Killable()
