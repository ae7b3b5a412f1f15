"""Fulfil one call of a tool as a job: start it in the ledger, perform it, record its one result.

A call that had started when its worker died may have had its effect. It runs again only when its
tool says that it may; else the call ends as `tool.lost`, and the model is told.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

from loops.app import App
from loops.approval import acting_on
from loops.errors import UnknownLoop
from loops.hook_registry import HookRegistry, join_hook_registry
from loops.messages import ToolCall, ToolResult
from loops.perform import longest, perform
from loops.runtime import Scope, surround
from loops.tasks import Owner
from loops.tool_context import ToolContext
from loops.tools import Tool, unknown_tool_result

from .call_results import CANCELLED, DRAINED, LOST, POISONED, finish_call
from .calls import RunPlace
from .insist import insist
from .link import Link
from .nudges import Nudges
from .progress import ProgressFeed
from .queue import POISON, Claim, Stop
from .tool_hooks import ToolHooks, ToolRuntime
from .working import WorkerResources
from .workspaces import workspace_of

GRACE = timedelta(seconds=5)
"""How long a tool may take to end when its time is over or it is cancelled; then it is left to
itself."""

WRITING = 20.0
"""How many seconds a result may take to be recorded once the worker wants the job's task back."""

logger = logging.getLogger("loopmill.tool")


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call that this worker has begun to fulfil."""

    call: ToolCall
    attempt: int
    agent: str
    session_id: str
    run_id: str
    origin: str
    """The run with whose work it goes on, empty for none."""


class ToolJob:
    """One claim of one call."""

    def __init__(
        self,
        resources: WorkerResources,
        claim: Claim,
        place: RunPlace,
        key: str,
        *,
        grace: timedelta = GRACE,
    ) -> None:
        self._link: Link = resources.link
        self._app: App = resources.app
        self._nudges: Nudges = resources.nudges
        self._settings = resources.settings
        self._claim = claim
        self._place = place
        self._key = key
        self._grace = grace.total_seconds()
        self._owner = Owner()
        self._hooks = ToolHooks(resources.link, place, claim, key, self._owner)
        self._feed = ProgressFeed(key, self._append_progress, self._owner)
        self._is_cancelled = False
        self._moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._result: ToolResult | None = None
        self._finishing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Fulfil the call, unless it is answered, or not ours to begin.

        However the job's task is stopped, a result that is known is recorded. A tool that does not
        end when it is cancelled is left to itself: nothing that it still does has any effect.
        """
        # From before the call begins, since somebody may cancel it at once.
        with self._nudges.listener(self._claim.job_id, self._hear):
            started = await self._start()
            if started is not None:
                await self._fulfil(started)

    async def _fulfil(self, started: StartedCall) -> None:
        try:
            await self._until_over(started)
            if finishing := self._begin_to_finish(started):
                await asyncio.shield(finishing)
        finally:
            self._feed.close()
            if finishing := self._begin_to_finish(started):
                await asyncio.wait({finishing}, timeout=WRITING)
            if not await self._owner.close_within(self._grace):
                logger.warning("! the tool of call %s does not end when cancelled", self._key)

    def _begin_to_finish(self, started: StartedCall) -> asyncio.Task[None] | None:
        """Begin, once, to record the call's end, if it has come to one here."""
        end = self._end(started)
        if self._finishing is None and end is not None:
            self._finishing = self._owner.start(self._finish(*end), name=f"finish {self._key}")
        return self._finishing

    def _end(self, started: StartedCall) -> tuple[str, ToolResult] | None:
        """Return how the call ends, or None when another worker goes on with it."""
        stop = self._claim.stop
        if self._result is not None:
            return "done", self._result
        if self._is_cancelled or stop is Stop.ABORTED:
            return "cancelled", self._failure(started, CANCELLED)
        if stop in {Stop.DRAINED, Stop.SHUT} and not self._may_run_again(started):
            return "lost", self._failure(started, DRAINED)
        return None

    def _hear(self, kind: str, key: str, value: bytes) -> None:
        if kind == "hook":
            self._hooks.hear(key, value)
        elif kind == "cancel":
            self._is_cancelled = True
            self._move()

    def _move(self, _: object = None) -> None:
        """Let who waits for the tool look what has become of it."""
        if not self._moved.done():
            self._moved.set_result(None)

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
            # Nothing to do, or somebody else's to do; or its tool has enough to do, and it waits.
            claim.released = True
            return None
        call = ToolCall.decode(reply[1])
        agent, session_id, run_id, origin = (part.decode() for part in reply[3:])
        logger.debug("⇢ tool %s of %s %s", call.name, run_id, self._key)
        return StartedCall(call, reply[2], agent, session_id, run_id, origin)

    async def _until_over(self, started: StartedCall) -> None:
        """Wait until the call has its result, or is cancelled."""
        tool = self._tool(started)
        if tool is None:
            self._result = unknown_tool_result(started.call)
        elif self._claim.stop is not Stop.ABORTED:
            await self._until_performed(started, tool)

    async def _until_performed(self, started: StartedCall, tool: Tool) -> None:
        limit = longest(tool, self._settings.tool_timeout)
        seconds = limit.total_seconds() + self._grace
        self._claim.renew_until = monotonic() + seconds + WRITING
        context = self._context_of(started)
        self._feed.of(started.call, hides=tool.redact is True)
        agent = self._app.agents.get(started.agent)
        work = self._owner.start(self._perform(tool, context, agent), name=f"tool {tool.name}")
        work.add_done_callback(self._move)
        self._ring(monotonic(), seconds)
        try:
            await self._moved
        finally:
            self._alarm.cancel()
            if not work.done():
                context.cancelled.set()
                work.cancel()
        if work.cancelled():
            text = f"ToolFailed: {tool.name!r} cancelled itself"
        elif work.done():
            work.result()
            return
        else:
            text = f"ToolTimedOut: {tool.name!r} took longer than {limit}, and did not end then"
        if self._result is None and not self._is_cancelled:
            self._result = self._failure(started, text)

    def _ring(self, began: float, seconds: float) -> None:
        """Move once the tool has taken so long; what it waited for the outside does not count."""
        left = began + seconds + self._hooks.seconds - monotonic()
        if left <= 0:
            self._move()
        else:
            self._alarm = asyncio.get_running_loop().call_later(left, self._ring, began, seconds)

    async def _perform(self, tool: Tool, context: ToolContext, agent: object) -> None:
        # The task is the tool's own, so its surroundings end with it.
        start = self._app.start_child
        surround(Scope(ToolRuntime(self._hooks), context, agent, start_child=start))
        join_hook_registry(HookRegistry())
        timeout = self._settings.tool_timeout
        result = await perform(tool, context.call.arguments, context, timeout=timeout)
        # Noted here, so that no stop can come between; recorded by a task that no tool can reach.
        self._result = result

    def _context_of(self, started: StartedCall) -> ToolContext:
        context = ToolContext(
            workspace=workspace_of(self._settings, self._place.tenant, started.session_id),
            chat_id=started.session_id,
            run=started.run_id,
            origin=started.origin,
            attempt=started.attempt,
            sink=self._feed,
        )
        return acting_on(started.call, context)

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
        await self._feed.finish()
        recorded = await finish_call(self._link, self._place, self._claim, state, result)
        logger.info(
            "%s tool %s of %s %s",
            "! failed" if result.is_error else "⇠",
            result.name,
            self._place.run_id,
            self._key,
        )
        if not recorded and state == "done":
            logger.warning("! the result of call %s comes too late and is dropped", self._key)

    def _failure(self, started: StartedCall, text: str) -> ToolResult:
        call = started.call
        return ToolResult(call.key, call.id, call.name, text, is_error=True)

    def _lost_result(self, text: str) -> ToolResult:
        return ToolResult(self._key, "", "", text, is_error=True)
