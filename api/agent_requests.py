"""`agent/<name>` in the place of a model: an agent of the app, asked in a provider's protocol."""

from __future__ import annotations

from time import time
from typing import Any

from loops.app import App
from loops.errors import InvalidRequest
from loops.events import AgentEvent, Retry
from loops.gateway.agent_view import AgentRounds, Told
from loops.gateway.asked import GatewayRequest
from loops.gateway.rounds import RoundEnd, Surface
from loops.gateway.rows import packed
from loops.gateway.translating import model_request
from loops.gateway.usages import is_usage_wanted
from loops.guard import renaming
from loops.history import repair
from worker.new_run import NewRun

from .errors import invalid_request

AGENT = "agent/"
"""What stands before an agent's name where a model's is expected."""


def is_agent(asked: GatewayRequest) -> bool:
    """Say whether an agent is asked, and not a model."""
    return asked.model.startswith(AGENT)


def agent_run(app: App, asked: GatewayRequest) -> NewRun:
    """Return the run of the agent that is asked.

    Raises:
        UnknownLoop: When there is no such agent.
        Refusal: When the request brings tools, for an agent has its own; when its tokens are to be
            counted, which is known when it has run; when its messages cannot be read.
    """
    name = asked.model.removeprefix(AGENT)
    app.loop_of(name)
    if asked.operation != "create":
        message = (
            f"the agent {name!r} is no model, whose tokens could be counted before it is asked"
        )
        raise invalid_request(message)
    if asked.body.get("tools"):
        message = f"tools: the agent {name!r} has tools of its own, and is given no others"
        raise invalid_request(message)
    with renaming(_refusal):
        read = model_request(asked.surface, asked.body)
    # A session keeps what is said here, and calls and results in it pair.
    said: list[dict[str, Any]] = repair(read.messages).raw
    if read.system.strip():
        said.insert(0, {"role": "system", "content": read.system})
    told = {"surface": asked.surface.value, "model": asked.model}
    return NewRun(agent=name, messages=said, metadata=told)


def _refusal(error: Exception) -> Exception:
    if isinstance(error, InvalidRequest):
        return invalid_request(str(error))
    return error


class AgentReading:
    """The events of an agent's run, as those of a gateway's."""

    def __init__(self, asked: GatewayRequest, run_id: str) -> None:
        self._asked = asked
        self._run_id = run_id
        self._rounds = self._begun()

    def _begun(self) -> AgentRounds:
        asked, number = self._asked, self._run_id.removeprefix("run_")
        prefix = "msg_" if asked.surface is Surface.MESSAGES else "chatcmpl-"
        return AgentRounds(
            asked.surface,
            streams=asked.streams,
            id=f"{prefix}{number}",
            model=asked.model,
            created=int(time()),
            tells_usage=is_usage_wanted(asked.body),
        )

    def feed(self, event: AgentEvent) -> list[AgentEvent]:
        """Return what the event is to a gateway's caller; itself where it is no part of a reply."""
        if isinstance(event, Retry):
            self._rounds = self._begun()
            return [event]
        return [*(each for told in self._rounds.feed(event) for each in _events(told)), event]


def _events(told: Told) -> list[AgentEvent]:
    return [told.event()] if isinstance(told, RoundEnd) else [*packed([told])]
