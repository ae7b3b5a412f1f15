"""The child runs of one pass: started once for all passes, and what came of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from loops.budget import Spent
from loops.child_run import NESTING, ChildRequest, ChildRun
from loops.errors import ChildFailed
from loops.messages import Usage

from .answers import CHILD
from .begin import Begun
from .calls import RunPlace
from .carrying import NOTHING, Ended, counted, read_ended
from .insist import insist
from .journal import encode_message, short_hash
from .new_run import NewPlace, NewRun, Parent, plan_run
from .waits import Waits
from .wire import Part
from .working import WorkerResources

ENDING = 30
"""Seconds that a child has to end whose run was cancelled, before its work is gone on with."""


class Children:
    """Starts the children of one pass, and waits for them."""

    def __init__(
        self, resources: WorkerResources, place: RunPlace, begun: Begun, waits: Waits
    ) -> None:
        self._link = resources.link
        self._settings = resources.settings
        self._app = resources.app
        self._place = place
        self._begun = begun
        self._waits = waits

    async def run(self, request: ChildRequest) -> ChildRun:
        """Start a child, unless an earlier pass has, and return what came of it.

        Raises:
            UnknownLoop: When the app has no such agent.
            ChildFailed: When runs would nest too deep.
        """
        agent = self._app.name_of(request.agent)
        if self._begun.run.nesting >= NESTING:
            raise ChildFailed(agent, "", f"runs nest {NESTING} deep at most")
        messages = [orjson.loads(encode_message(each)) for each in request.messages]
        key = self._begun.journal.numbered(f"{CHILD}{agent}:{short_hash(messages)}")
        planned = self._planned(request, key, messages, await self._earlier(key))
        told = orjson.loads(await self._waits.for_child(key, *planned))
        output = b""
        if told["status"] == "completed":
            output = await insist(
                self._link, "read_child", keys=[self._place.record], arguments=[key, "output"]
            )
        return _child(told, output.decode())

    async def _earlier(self, key: str) -> Ended | None:
        """Return the child of the run with whose work this one goes on, where it has one.

        Raises:
            ChildFailed: When that one does not come to its end.
        """
        if self._begun.run.retry_of is None:
            return None
        was: bytes = await insist(
            self._link, "read_child", keys=[self._place.record], arguments=[key, "was"]
        )
        names = self._place.keys.run(self._place.tenant, was.decode())
        for _ in range(ENDING):
            ended = await read_ended(self._link, names) if was else None
            if ended is None or ended.run.is_settled:
                return ended
            await asyncio.sleep(1)
        raise ChildFailed(key, was.decode(), "its first try does not come to its end")

    def _planned(
        self, request: ChildRequest, key: str, messages: list[Any], earlier: Ended | None
    ) -> list[Part]:
        """Return the last arguments of the script that starts a child."""
        agent = self._app.name_of(request.agent)
        run_id = f"run_{secrets.token_hex(16)}"
        place = NewPlace(self._place.tenant, run_id, f"ses_{secrets.token_hex(16)}")
        new = NewRun(
            agent=agent,
            messages=messages,
            timeout=request.timeout,
            metadata=dict(request.metadata),
            budget=None if request.budget is None else dict(request.budget.limits()),
            parent=Parent(self._place.run_id, key, self._begun.run.nesting),
            retry_of=None if earlier is None else earlier.run.id,
            origin=None if earlier is None else earlier.run.origin,
        )
        names, arguments = plan_run(self._place.keys, self._settings, place, new)
        event = {"type": "child.started", "data": {"run": run_id, "agent": agent}}
        carried = NOTHING if earlier is None else earlier.carried()
        return [orjson.dumps([event]), *counted([names, arguments, *carried])]


def _child(told: Mapping[str, Any], output: str) -> ChildRun:
    error: Mapping[str, str] = told.get("error") or {}
    usage = told.get("usage")
    return ChildRun(
        agent=told["agent"],
        run=told["run"],
        status=told["status"],
        output=output,
        usage=None if usage is None else Usage.model_validate(usage),
        spent=_spent(told.get("spent") or {}),
        failure=": ".join(error[name] for name in ("code", "message") if name in error),
    )


def _spent(told: Mapping[str, Any]) -> Spent:
    """Return what was spent; fields that a newer writer added are ignored."""
    return Spent(**{name: told[name] for name in asdict(Spent()) if name in told})
