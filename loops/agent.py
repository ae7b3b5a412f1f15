"""Agents: a loop with a model, instructions and tools."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack, overload

from .agent_stream import AgentStream
from .bound_call import BoundToolCall
from .budget import Budget, tighter
from .context import Context
from .default import default_loop
from .events import AgentEvent
from .hook_registry import HookRegistry
from .messages import MessageLike, Messages, ToolCall
from .model import ModelPort
from .naming import refuse_unknown
from .runtime import current_scope
from .tool_list import as_tools
from .tools import Tool


class AgentOptions(TypedDict, total=False):
    """What else an agent is made with."""

    max_turns: int
    budget: Budget | None
    max_tokens: int | None
    params: Mapping[str, Any]


class RunOptions(TypedDict, total=False):
    """What else a run is started with; see the fields of `Context`."""

    output_type: Any
    params: Mapping[str, Any]
    metadata: Mapping[str, Any]
    chat_id: str | None
    user: Any
    workspace: Any
    approvals: Sequence[str]
    declined: Sequence[str]
    auto: bool
    sessions: Any
    max_turns: int
    budget: Budget | None


class Agent:
    """A loop with a model, instructions and tools; nothing of a run is kept in it.

    Override `loop` to decide otherwise. One agent may serve many runs at the same time.

    Raises:
        SetupError: When a tool is none, two have one name, or an option does not exist.
    """

    TOOLS: ClassVar[Sequence[Tool | Callable[..., Any]]] = ()
    """Tools of the class, before those of the instance."""
    LOOP_BUFFER: ClassVar[int | None] = None
    """How many events the loop may be ahead of its reader; None for any number, 0 for lockstep.

    On workers the reader is the log: with 0 a yield returns when the event stands there.
    """

    def __init__(
        self,
        *,
        model: str | ModelPort | None = None,
        system: str = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        **options: Unpack[AgentOptions],
    ) -> None:
        refuse_unknown(options, AgentOptions.__annotations__, subject=type(self).__name__)
        self.model = model
        self.system = system
        self.max_turns = options.get("max_turns", 50)
        self.budget = options.get("budget")
        self.max_tokens = options.get("max_tokens")
        self.params = options.get("params", {})
        self._tools = as_tools([*as_tools(self.TOOLS), *as_tools(tools)])

    @property
    def tools(self) -> list[Tool]:
        """The tools of the class and of the instance; a copy."""
        return list(self._tools)

    @overload
    def resolve(self, call: ToolCall) -> BoundToolCall: ...
    @overload
    def resolve(self, call: Sequence[ToolCall]) -> list[BoundToolCall]: ...
    def resolve(self, call: ToolCall | Sequence[ToolCall]) -> BoundToolCall | list[BoundToolCall]:
        """Return the call bound to its tool; one of an unknown tool gets an error result."""
        return Context(tools=self._tools).resolve(call)

    def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
        """Yield the run's events; override it as an asynchronous generator."""
        return default_loop(context)

    def context(
        self,
        messages: Iterable[MessageLike] | str = (),
        *,
        model: str | ModelPort | None = None,
        **options: Unpack[RunOptions],
    ) -> Context:
        """Return a new run's context: what is given here goes before what the agent has.

        Of two budgets the stricter limits hold.
        """
        given: dict[str, Any] = {
            "params": self.params,
            "max_turns": self.max_turns,
            **options,
            "budget": tighter(self.budget, options.get("budget")),
        }
        return Context(
            messages=Messages.of(messages),
            model=self.model if model is None else model,
            system=self.system,
            tools=self.tools,
            max_tokens=self.max_tokens,
            **given,
        )

    def run(
        self,
        model: str | ModelPort | None = None,
        messages: Iterable[MessageLike] | str = (),
        *,
        hook_registry: HookRegistry | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentStream:
        """Return a run in this process; it begins when its first event is asked for.

        Its hooks are found in the given registry, else in that of the run around it.
        """
        context = self.context(messages, model=model, **options)
        return AgentStream(
            self.loop,
            context,
            agent=self,
            buffer=self.LOOP_BUFFER,
            hook_registry=hook_registry,
        )


AgentType = TypeVar("AgentType", bound=Agent)


def current_agent(type: type[AgentType] = Agent) -> AgentType:  # type: ignore[assignment]  # noqa: A002 - the name that callers know
    """Return the agent whose run surrounds the caller.

    Raises:
        LookupError: Outside of an agent's run, or when the agent is of another class.
    """
    agent = current_scope().agent
    if isinstance(agent, type):
        return agent
    raise LookupError(f"the current agent is {agent!r}, not one of the class {type.__name__!r}")
