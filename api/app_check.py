"""What keeps an app from working, though it could be made: seen without running it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator

from loops.agent import Agent
from loops.app import App
from loops.errors import SetupError
from loops.model import ModelPort, resolve_model
from loops.tools import Tool


def problems_of_app(app: App) -> Iterator[str]:
    """Yield what is wrong with the app as a whole."""
    if not app.agents:
        yield "it has no agents: give it some, as in ai.App({'name': ai.Agent(…)})"
    yield from _same_names(app.tools)


def problems_of_agent(app: App, name: str) -> Iterator[str]:
    """Yield what is wrong with one of its agents."""
    agent = app.agents[name]
    if not isinstance(agent, Agent):
        return
    yield from _same_names(agent.tools)
    if agent.model is not None:
        yield from _problems_of_model(agent.model)
    elif type(agent).loop is Agent.loop:
        yield "it has no model: give it a model=, or a loop of its own"


def _problems_of_model(model: str | ModelPort) -> Iterator[str]:
    try:
        port = resolve_model(model)
    except SetupError as error:
        yield str(error)
        return
    if inspect.iscoroutinefunction(port.stream):
        yield f"the stream of the model port {port.name!r} is no async generator: it has no yield"


def _same_names(tools: Iterable[Tool]) -> Iterator[str]:
    counts = Counter(tool.name for tool in tools)
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield f"{counts[name]} tools are named {name!r}, and one would hide the other: rename one"
