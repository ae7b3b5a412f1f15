"""A pass' calls to tools: the job that each becomes, and the look-up that replaces lost words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic, time

import orjson

from loops.messages import ToolCall, ToolResult
from loops.perform import perform
from loops.tool_context import ProgressSink, ToolContext
from loops.tools import Tool

from .answers import Answers
from .keys import Keys
from .link import Link
from .payloads import encode_job
from .settings import Settings
from .wire import Part, Reply
from .writer import DONE


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run lives."""

    keys: Keys
    tenant: str
    run_id: str

    @property
    def record(self) -> str:
        """The key of its record."""
        return self.keys.run(self.tenant, self.run_id).record

    @property
    def calls(self) -> str:
        """The key of its ledger."""
        return self.keys.run(self.tenant, self.run_id).calls


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a run's agent offers, on every worker."""

    agent: str
    tools: Mapping[str, Tool]
    context: ToolContext
    """What a tool may know that is performed where its loop runs."""


class CallDesk:
    """Makes jobs of calls, and looks up their answers."""

    def __init__(self, link: Link, place: RunPlace, settings: Settings, *, offer: Offer) -> None:
        self._link = link
        self._offer = offer
        self._place = place
        self._settings = settings
        self._since: dict[str, float] = {}

    def offers(self, tool: Tool) -> bool:
        """Say whether other workers have the very same tool."""
        return self._offer.tools.get(tool.name) is tool

    async def perform(self, tool: Tool, call: ToolCall, sink: ProgressSink) -> ToolResult:
        """Perform a call right here; what it gives before its result goes to the sink."""
        context = replace(self._offer.context, call=call, cancelled=Event(), sink=sink)
        limit = self._settings.tool_timeout
        return await perform(tool, call.arguments, context, timeout=limit)

    def job_of(
        self, call: ToolCall, tool: Tool, *, turn: str, part: bytes, length: int
    ) -> list[Part]:
        """Return the last arguments of the script that starts the call."""
        keys, tenant, run_id = self._place.keys, self._place.tenant, self._place.run_id
        arguments = [tenant, run_id, call.key, f"{self._offer.agent}/{call.name}"]
        queued = {"call": call.key, "id": call.id, "name": call.name, "queue": tool.queue}
        return [
            call.key,
            turn,
            part,
            length,
            keys.queue(tool.queue).queue,
            keys.call_job(tenant, run_id, call.key),
            encode_job("perform_call", arguments, enqueued=round(time() * 1000)),
            call.encode(),
            int(tool.idempotent or tool.read_only),
            orjson.dumps([{"type": "tool.queued", "data": queued}]),
            tool.queue,
            keys.queues,
        ]

    async def look_up(self, answers: Answers, epoch: int) -> None:
        """Read the answers that wait, in case a message was lost, and give up what never began."""
        waiting = answers.waiting
        if not waiting:
            return
        fields = [f"{key}|{name}" for key in waiting for name in ("result", "state")]
        found: list[bytes | None] = await self._link.command("HMGET", self._place.calls, *fields)
        for key, result, state in zip(waiting, found[::2], found[1::2], strict=True):
            if result is not None:
                answers.arrive(key, result)
            elif state == b"queued" and self._is_overdue(key):
                await self._withdraw(answers, epoch, key)

    def _is_overdue(self, key: str) -> bool:
        since = self._since.setdefault(key, monotonic())
        return monotonic() - since > self._settings.queue_wait.total_seconds()

    async def _withdraw(self, answers: Answers, epoch: int, key: str) -> None:
        raw: bytes = await self._link.command("HGET", self._place.calls, f"{key}|call")
        call = ToolCall.decode(raw)
        text = (
            f"ToolTimedOut: no worker began {call.name!r} within {self._settings.queue_wait}; "
            "it has not run"
        )
        result = ToolResult(key, call.id, call.name, text, is_error=True)
        reply: Reply = await self._link.run(
            "withdraw_call",
            keys=[self._place.record],
            arguments=[epoch, key, result.encode()],
        )
        if reply[0] == DONE:
            answers.arrive(key, reply[1])
