"""The registry of a program's agents, tools and callbacks."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Unpack, cast, runtime_checkable

from .agent import Agent, AgentStream, Loop, RunOptions, RunOutcome
from .bound_call import tools_by_name
from .context import Context
from .errors import SetupError, UnknownLoop
from .messages import MessageLike, Messages
from .model import ModelPort
from .tools import Tool, as_tool


@runtime_checkable
class LoopOwner(Protocol):
    """Anything that has a loop of its own."""

    def loop(self, context: Context, /) -> Any:
        """Yield the run's events."""
        ...


AgentLike = Agent | type[Agent] | Loop | LoopOwner
"""What an app may have as an agent."""


class App:
    """The agents of a program by name, with the tools and callbacks that all of them have."""

    def __init__(
        self,
        agents: Mapping[str, AgentLike] | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        callbacks: Sequence[object] = (),
    ) -> None:
        self.agents: dict[str, Agent | Loop | LoopOwner] = {
            name: _instance(name, agent) for name, agent in (agents or {}).items()
        }
        self.tools = [as_tool(each) for each in tools]
        self.callbacks = list(callbacks)

    def loop_of(self, name: str) -> Loop:
        """Return the agent's loop.

        Raises:
            UnknownLoop: When there is no agent of the name.
        """
        agent = self._agent(name)
        if isinstance(agent, (Agent, LoopOwner)):
            return cast("Loop", agent.loop)
        return agent

    def tools_of(self, name: str) -> dict[str, Tool]:
        """Return the tools that the agent may call, its own before those of the app."""
        own = cast("Iterable[object]", getattr(self._agent(name), "tools", ()))
        return dict(tools_by_name([*self.tools, *(each for each in own if isinstance(each, Tool))]))

    def model_of(self, name: str) -> str | ModelPort | None:
        """Return the agent's model, if it has one."""
        return getattr(self._agent(name), "model", None) if self._is_agent(name) else None

    def system_of(self, name: str) -> str:
        """Return the agent's instructions."""
        return getattr(self._agent(name), "system", "") if self._is_agent(name) else ""

    def context_of(
        self,
        name: str,
        messages: Iterable[MessageLike] | MessageLike = (),
        **options: Unpack[RunOptions],
    ) -> Context:
        """Return the context of a new run of the agent."""
        agent = self._agent(name)
        history = Messages.of(messages)
        if isinstance(agent, Agent):
            context = agent.context(history, **options)
        else:
            context = Context(messages=history, **options)
        context.tools = list(self.tools_of(name).values())
        return context

    def start(
        self,
        name: str,
        messages: Iterable[MessageLike] | MessageLike,
        **options: Unpack[RunOptions],
    ) -> AgentStream:
        """Return a run of the agent in this process; it begins when its events are read."""
        agent = self._agent(name)
        return AgentStream(
            self.loop_of(name),
            self.context_of(name, messages, **options),
            agent=agent,
            buffer=agent.LOOP_BUFFER if isinstance(agent, Agent) else None,
        )

    async def run(
        self,
        name: str,
        messages: Iterable[MessageLike] | MessageLike,
        **options: Unpack[RunOptions],
    ) -> RunOutcome:
        """Run the agent in this process to its end.

        Raises:
            UnknownLoop: When there is no agent of the name.
        """
        async with self.start(name, messages, **options) as stream:
            events = [event async for event in stream]
        return RunOutcome(stream.output, stream.messages, events, stream.usage)

    def _agent(self, name: str) -> Agent | Loop | LoopOwner:
        agent = self.agents.get(name)
        if agent is None:
            raise UnknownLoop(name, self.agents)
        return agent

    def _is_agent(self, name: str) -> bool:
        return isinstance(self._agent(name), Agent)


def _instance(name: str, agent: AgentLike) -> Agent | Loop | LoopOwner:
    if isinstance(agent, type):
        return _made(name, agent)
    if isinstance(agent, LoopOwner) or _is_loop(agent):
        return agent
    raise SetupError(
        f"the agent {name!r} is an Agent, a class of one, or an async generator function of a "
        f"context; not {agent!r}"
    )


def _made(name: str, agent: type[object]) -> Agent:
    if not issubclass(agent, Agent):
        raise SetupError(f"the agent {name!r} is a class, but not one of ai.Agent: {agent!r}")
    try:
        return agent()
    except TypeError as error:
        raise SetupError(
            f"the agent {name!r} cannot be made without arguments: {error}; give an instance"
        ) from error


def _is_loop(agent: object) -> bool:
    return inspect.isasyncgenfunction(agent) or inspect.isasyncgenfunction(type(agent).__call__)
