"""Fulfil one call of a tool as a job: start it in the ledger, perform it, record its one result.

A call that had started when its worker died may have had its effect. It runs again only when its
tool says that it may; else the call ends as `tool.lost`, and the model is told.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from typing import Any

import orjson

from loops.app import App
from loops.errors import UnknownLoop
from loops.messages import ToolCall, ToolResult
from loops.perform import perform
from loops.tasks import Owner
from loops.tool_context import ToolContext
from loops.tools import Tool, unknown_tool_result

from .calls import RunPlace
from .insist import insist
from .link import Link
from .nudges import Nudges
from .progress import ProgressFeed
from .queue import Claim, Stop
from .working import WorkerResources

POISON = 3
"""After how many workers that died in a row over a job nobody tries it again."""

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

logger = logging.getLogger("loopmill.tool")


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call that this worker has begun to fulfil."""

    call: ToolCall
    attempt: int
    agent: str
    session_id: str
    run_id: str


class ToolJob:
    """One claim of one call."""

    def __init__(self, resources: WorkerResources, claim: Claim, place: RunPlace, key: str) -> None:
        self._link: Link = resources.link
        self._app: App = resources.app
        self._nudges: Nudges = resources.nudges
        self._settings = resources.settings
        self._claim = claim
        self._place = place
        self._key = key
        self._owner = Owner()
        self._feed = ProgressFeed(key, self._append_progress, self._owner)
        self._is_cancelled = asyncio.Event()

    async def run(self) -> None:
        """Fulfil the call, unless it is answered, or not ours to begin."""
        started = await self._start()
        if started is None:
            return
        try:
            with self._nudges.listener(self._claim.job_id, self._hear):
                result = await self._result_of(started)
                await self._feed.finish()
        finally:
            await self._say_why_stopped(started)
            await self._owner.close()
        if result is None:
            await self._finish("cancelled", self._failure(started, CANCELLED))
        else:
            await self._finish("done", result)

    async def _say_why_stopped(self, started: StartedCall) -> None:
        """Answer a call whose job the worker takes back, unless another worker goes on with it."""
        if self._claim.stop is Stop.ABORTED:
            await self._finish("cancelled", self._failure(started, CANCELLED))
        elif self._claim.stop in {Stop.DRAINED, Stop.SHUT} and not self._may_run_again(started):
            await self._finish("lost", self._failure(started, DRAINED))

    def _hear(self, kind: str, key: str, value: bytes) -> None:
        del key, value
        if kind == "cancel":
            self._is_cancelled.set()

    async def _start(self) -> StartedCall | None:
        claim = self._claim
        reply: list[Any] = await insist(
            self._link,
            "start_tool",
            keys=[self._place.record],
            arguments=[
                claim.queue,
                claim.job_id,
                claim.token,
                self._key,
                claim.worker_id,
                self._place.keys.owner(claim.worker_id),
                os.getpid(),
                claim.lapses,
                POISON,
                self._lost_result(LOST).encode(),
                self._lost_result(POISONED).encode(),
            ],
        )
        if reply[0] != 1:
            claim.released = True
            return None
        call = ToolCall(**orjson.loads(reply[1]))
        agent, session_id, run_id = (part.decode() for part in reply[3:])
        logger.info("⇢ tool %s %s", call.name, self._key)
        return StartedCall(call, reply[2], agent, session_id, run_id)

    async def _result_of(self, started: StartedCall) -> ToolResult | None:
        """Return the tool's result, or None when the call was cancelled."""
        tool = self._tool(started)
        if tool is None:
            return unknown_tool_result(started.call)
        context = ToolContext(
            chat_id=started.session_id,
            run=started.run_id,
            call=started.call,
            attempt=started.attempt,
            sink=self._feed,
        )
        work = self._owner.start(
            perform(tool, started.call.arguments, context, timeout=self._settings.tool_timeout),
            name=f"tool {tool.name}",
        )
        cancelled = self._owner.start(self._wait_for_cancel(), name="tool cancel")
        await asyncio.wait({work, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        context.cancelled.set()
        return None

    async def _wait_for_cancel(self) -> None:
        await self._is_cancelled.wait()

    def _tool(self, started: StartedCall) -> Tool | None:
        """Return the tool, if the run's agent offers it here and now."""
        try:
            return self._app.tools_of(started.agent).get(started.call.name)
        except UnknownLoop:
            return None

    def _may_run_again(self, started: StartedCall) -> bool:
        tool = self._tool(started)
        return tool is not None and (tool.idempotent or tool.read_only)

    async def _append_progress(self, number: int, count: int, events: bytes) -> object:
        claim = self._claim
        return await insist(
            self._link,
            "progress_tool",
            keys=[self._place.record],
            arguments=[claim.queue, claim.job_id, claim.token, self._key, number, count, events],
        )

    async def _finish(self, state: str, result: ToolResult) -> None:
        recorded = await finish_call(self._link, self._place, self._claim, state, result)
        logger.info("⇠ tool %s %s", result.name, self._key)
        if not recorded and state == "done":
            logger.warning("! the result of call %s comes too late and is dropped", self._key)

    def _failure(self, started: StartedCall, text: str) -> ToolResult:
        call = started.call
        return ToolResult(call.key, call.id, call.name, text, is_error=True)

    def _lost_result(self, text: str) -> ToolResult:
        return ToolResult(self._key, "", "", text, is_error=True)


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
