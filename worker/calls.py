"""A pass' calls to tools: the job that each becomes, and the look-up that replaces lost words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic, time

import orjson

from loops.approval import acting_on
from loops.gate import within_concurrency
from loops.messages import ToolCall, ToolResult
from loops.perform import perform
from loops.tool_context import ProgressSink, ToolContext
from loops.tool_list import tools_by_name
from loops.tools import Tool

from .answers import Answers
from .keys import Keys, RunKeys
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
    def names(self) -> RunKeys:
        """The names of its keys."""
        return self.keys.run(self.tenant, self.run_id)

    @property
    def record(self) -> str:
        """The key of its record."""
        return self.names.record

    @property
    def calls(self) -> str:
        """The key of its ledger."""
        return self.names.calls


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a run's agent offers, on every worker."""

    agent: str
    tools: Mapping[str, Tool]
    context: ToolContext
    """What a tool may know that is performed where its loop runs."""
    given: Callable[[], Sequence[Tool]]
    """Gives the tools that the run's context has now."""


class CallDesk:
    """Makes jobs of calls, and looks up their answers."""

    def __init__(self, link: Link, place: RunPlace, settings: Settings, *, offer: Offer) -> None:
        self._link = link
        self._offer = offer
        self._place = place
        self._settings = settings
        self._since: dict[str, tuple[bytes | None, float]] = {}

    def known_tools(self) -> Mapping[str, Tool]:
        """Return the tools that the run has now: those of its agent, and its loop's own."""
        return {**self._offer.tools, **tools_by_name(self._offer.given())}

    def offers(self, tool: Tool) -> bool:
        """Say whether other workers have the very same tool."""
        return self._offer.tools.get(tool.name) is tool

    async def perform(self, tool: Tool, call: ToolCall, sink: ProgressSink) -> ToolResult:
        """Perform a call right here; what it gives before its result goes to the sink."""
        acting = acting_on(call, self._offer.context)
        context = replace(acting, cancelled=Event(), sink=sink)
        limit = self._settings.tool_timeout
        async with within_concurrency(tool):
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
            "" if tool.concurrency is None else f"{tool.concurrency} {keys.gate(tool.name)}",
            orjson.dumps(tool.redact) if tool.redact else b"",
        ]

    async def look_up(self, answers: Answers, epoch: int) -> None:
        """Read the answers that wait, in case a message was lost, and give up what never began."""
        waiting = answers.waiting
        if not waiting:
            return
        fields = [f"{key}|{name}" for key in waiting for name in ("result", "state", "held")]
        found: list[bytes | None] = await self._link.command("HMGET", self._place.calls, *fields)
        told = zip(waiting, found[::3], found[1::3], found[2::3], strict=True)
        for key, result, state, held in told:
            if result is not None:
                answers.arrive(key, result)
            elif state == b"queued" and self._is_overdue(key, held):
                await self._withdraw(answers, epoch, key)

    def _is_overdue(self, key: str, held: bytes | None) -> bool:
        """Say whether no worker has looked at the call for too long: in line it may wait longer."""
        was_held, since = self._since.setdefault(key, (held, monotonic()))
        if was_held != held:
            since = monotonic()
            self._since[key] = held, since
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
