"""The registry of a program's agents, tools and callbacks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, Unpack, cast, runtime_checkable

from .agent import Agent, RunOptions
from .agent_stream import AgentStream, RunOutcome
from .child_run import ChildRequest
from .context import Context
from .errors import SetupError, UnknownLoop
from .loop_shape import Loop, begin, check_loop
from .messages import MessageLike, Messages
from .naming import NAME_RULE, is_name
from .tool_list import as_tools, refuse_twins, tools_by_name
from .tools import Tool


@runtime_checkable
class AgentPort(Protocol):
    """Anything that says itself what its loop is, and what its tools are."""

    def agent_loop(self, context: Context, /) -> Any:
        """Yield the run's events."""
        ...

    def agent_tools(self) -> Iterable[Tool]:
        """Return the tools that it may call."""
        ...


@runtime_checkable
class LoopOwner(Protocol):
    """Anything that has a loop of its own."""

    def loop(self, context: Context, /) -> Any:
        """Yield the run's events."""
        ...


AgentLike = Agent | type[Agent] | Loop | LoopOwner | AgentPort
"""What an app may have as an agent."""


class App:
    """The agents of a program by name, with the tools and callbacks that all of them have.

    Raises:
        SetupError: When an agent or a tool is none, or has a name that it cannot have.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentLike] | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        callbacks: Sequence[object] = (),
    ) -> None:
        self.agents = _agents({} if agents is None else agents)
        self.tools = as_tools(tools)
        self.callbacks = list(callbacks)

    def beside(self, name: str, agent: AgentPort) -> "App":
        """Return the app with an agent that is the system's own, by a name that no other can have.

        Its own callers name it; nobody else finds it in a list, or may ask for it.
        """
        both = App(tools=self.tools, callbacks=self.callbacks)
        both.agents = {**self.agents, name: agent}
        return both

    def loop_of(self, name: str) -> Loop:
        """Return the agent's loop; called, it gives events or raises a `SetupError`.

        Raises:
            UnknownLoop: When there is no agent of the name.
        """
        return partial(begin, _loop_in(self._agent(name)))

    def tools_of(self, name: str) -> dict[str, Tool]:
        """Return the tools that the agent may call, its own before those of the app."""
        return dict(tools_by_name([*self.tools, *_tools_in(self._agent(name))]))

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
            child=self.start_child,
        )

    def start_child(self, request: ChildRequest) -> tuple[str, AgentStream]:
        """Return the name and a run in this process of the agent that another run asks for.

        Raises:
            UnknownLoop: When the app has no such agent.
        """
        name = self.name_of(request.agent)
        options: RunOptions = {"budget": request.budget, "metadata": request.metadata}
        return name, self.start(name, request.messages, **options)

    def name_of(self, agent: object) -> str:
        """Return the name under which the app has the agent; a name stands for itself.

        Raises:
            UnknownLoop: When the app has no such agent.
        """
        for name, known in self.agents.items():
            if agent is known or agent == name:
                return name
        raise UnknownLoop(str(agent), self.agents)

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

    def _agent(self, name: str) -> "Registered":
        agent = self.agents.get(name)
        if agent is None:
            raise UnknownLoop(name, self.agents)
        return agent


Registered = Agent | Loop | LoopOwner | AgentPort


def _is_port(agent: object) -> TypeGuard[AgentPort]:
    """Say whether an agent is a port: each run asks, and the protocol's own answer takes long."""
    return hasattr(agent, "agent_loop") and hasattr(agent, "agent_tools")


def _loop_in(agent: Registered) -> Loop:
    if _is_port(agent):
        return agent.agent_loop
    owned: Loop | None = getattr(agent, "loop", None)
    return cast("Loop", agent) if owned is None else owned


def _agents(given: object) -> dict[str, Registered]:
    if not isinstance(given, Mapping):
        raise SetupError(
            f"agents is a mapping of names to agents, like {{'shout': shout}}; not {given!r}"
        )
    agents = cast("Mapping[object, AgentLike]", given)
    return {_checked_name(name): _instance(name, agent) for name, agent in agents.items()}


def _checked_name(name: object) -> str:
    if not is_name(name):
        raise SetupError(f"an agent's name is {NAME_RULE}, not {name!r}; give it another one")
    return name


def _instance(name: object, agent: AgentLike) -> Registered:
    made = _made(name, agent) if isinstance(agent, type) else agent
    is_owner = _is_port(made) or isinstance(made, LoopOwner)
    subject = f"the loop of the agent {name!r}" if is_owner else f"the agent {name!r}"
    check_loop(_loop_in(made), subject=subject)
    if is_owner:
        refuse_twins(_tools_in(made))
    return made


def _tools_in(agent: object) -> list[Tool]:
    if _is_port(agent):
        return list(agent.agent_tools())
    own = cast("Iterable[object]", getattr(agent, "tools", ()))
    return [each for each in own if isinstance(each, Tool)]


def _made(name: object, agent: type[object]) -> Agent:
    if not issubclass(agent, Agent):
        raise SetupError(f"the agent {name!r} is a class, but not one of ai.Agent: {agent!r}")
    try:
        return agent()
    except TypeError as error:
        raise SetupError(
            f"the agent {name!r} cannot be made without arguments: {error}; give an instance"
        ) from error
