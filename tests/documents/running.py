"""Run an agent of a document, on whatever it has to run on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import loops as ai

KINDS = ("process",)
"""What the agents of the documents run on; each kind has its entry in `_RUNNERS`."""


@dataclass(frozen=True)
class Observed:
    """What a run showed to whoever watched it."""

    events: list[ai.AgentEvent]
    messages: ai.Messages


async def run_on(kind: str, agent: ai.Agent, *, said: str) -> Observed:
    """Run the agent to its end and return what could be seen."""
    return await _RUNNERS[kind](agent, said)


async def _in_this_process(agent: ai.Agent, said: str) -> Observed:
    async with agent.run(messages=said) as stream:
        events = [event async for event in stream]
    return Observed(events, stream.messages)


_RUNNERS: dict[str, Callable[[ai.Agent, str], Awaitable[Observed]]] = {"process": _in_this_process}
