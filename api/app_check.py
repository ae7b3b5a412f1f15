"""What keeps an app from working, as far as it can be seen without running it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from loops.agent import Agent
from loops.app import App
from loops.errors import SetupError
from loops.model import ModelPort, ModelRequest, resolve_model
from loops.tools import Tool


def problems_of_app(app: App) -> Iterator[str]:
    """Yield what is wrong with the app as a whole."""
    if not app.agents:
        yield "it has no agents: give it some, as in ai.App({'name': ai.Agent(…)})"
    yield from _same_names(app.tools)


def problems_of_agent(app: App, name: str) -> Iterator[str]:
    """Yield what is wrong with one of its agents."""
    agent = app.agents[name]
    loop = app.loop_of(name)
    yield from _problems_of_loop(loop)
    if not isinstance(agent, Agent):
        return
    yield from _same_names(agent.tools)
    if agent.model is not None:
        yield from _problems_of_model(agent.model)
    elif type(agent).loop is Agent.loop:
        yield "it has no model: give it a model=, or a loop of its own"


def _problems_of_loop(loop: Callable[..., object]) -> Iterator[str]:
    if _is_no_generator(loop):
        yield "its loop is no async generator: write `async def`, and `yield` what happens"
    if not _takes(loop, "a context"):
        yield "its loop takes no context: give it one parameter, `context`"


def _problems_of_model(model: str | ModelPort) -> Iterator[str]:
    try:
        port = resolve_model(model)
    except SetupError as error:
        yield str(error)
        return
    stream = cast("Callable[..., object] | None", getattr(port, "stream", None))
    if not callable(stream) or _is_no_generator(stream):
        yield f"its model {port!r} has no `stream` that is an async generator"
    elif not _takes(stream, ModelRequest("", ())):
        yield f"the `stream` of its model {port!r} takes no request"
    if not isinstance(getattr(port, "name", None), str):
        yield f"its model {port!r} has no name: give it an attribute `name`"


def _is_no_generator(function: Callable[..., object]) -> bool:
    """Say whether it surely gives no async iterator; a plain function may return one."""
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called)


def _takes(function: Callable[..., object], argument: object) -> bool:
    try:
        inspect.signature(function).bind(argument)
    except TypeError:
        return False
    except ValueError:
        # Some callables have no signature to look at.
        return True
    return True


def _same_names(tools: Iterable[Tool]) -> Iterator[str]:
    counts = Counter[str](tool.name for tool in tools)
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield f"{counts[name]} tools are named {name!r}, and one would hide the other: rename one"
