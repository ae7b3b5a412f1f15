"""Agents: a loop with a model, instructions and tools; and the run of one in this process."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack, overload

from .blocked import BlockedFold
from .bound_call import BoundToolCall
from .budget import Budget, budgeted
from .buffer import Buffer
from .closing import OpenEvents, close
from .context import Context
from .default import default_loop
from .events import AgentEvent, HookEvent
from .hook_registry import HookRegistry, active_registry, join_hook_registry, use_hook_registry
from .interrupted import take_interrupted
from .local import LocalRuntime
from .loop_shape import Loop, begin
from .messages import Message, MessageLike, Messages, ToolCall, Usage
from .model import ModelPort
from .naming import refuse_unknown
from .output import PublishedText, read_output
from .runtime import Scope, active_scope, current_scope, surround
from .tool_list import as_tools
from .tools import Tool
from .wire import as_event


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
    """How many events the loop may be ahead of its reader; None for any number, 0 for lockstep."""

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
        """Return a new run's context: what is given here goes before what the agent has."""
        given: dict[str, Any] = {
            "params": self.params,
            "max_turns": self.max_turns,
            "budget": self.budget,
            **options,
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
    ) -> "AgentStream":
        """Return a run in this process; it begins when its first event is asked for.

        Its hooks are found in the given registry, else in that of the run around it.
        """
        context = self.context(messages, model=model, **options)
        return AgentStream(
            self.loop, context, agent=self, buffer=self.LOOP_BUFFER, hook_registry=hook_registry
        )


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run in this process came to."""

    output: Any
    messages: Messages
    events: list[AgentEvent]
    usage: Usage


class AgentStream(OpenEvents[AgentEvent]):
    """The events of a run in this process.

    Used as `async with`; leaving the block ends the run and cancels its tools. A reader that gives
    up waiting for an event loses nothing. What the loop raises is raised here, after the events
    before it.
    """

    def __init__(
        self,
        loop: Loop,
        context: Context,
        *,
        agent: object | None = None,
        buffer: int | None = None,
        hook_registry: HookRegistry | None = None,
    ) -> None:
        self.context = context
        self.hook_registry = hook_registry or active_registry() or HookRegistry()
        """Where the run's hooks are found, also by another task."""
        self._loop = loop
        self._agent = agent
        context.interrupted = take_interrupted(context.messages)
        self._events = Buffer(self._yielded, size=buffer)
        around = active_scope()
        self._runtime = LocalRuntime(
            context.tool_context(),
            tell=self._events.put,
            outer=None if around is None else around.runtime,
            known=context.interrupted.results if context.interrupted else {},
        )
        self._text = PublishedText()
        self._blocked = BlockedFold()
        self._told: deque[AgentEvent] = deque()
        self._inside = use_hook_registry(self.hook_registry)

    async def __aenter__(self) -> Self:
        self._inside.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._inside.__exit__(None, None, None)
        finally:
            await super().__aexit__(kind, error, trace)

    async def __anext__(self) -> AgentEvent:
        """Return the next event."""
        event = self._told.popleft() if self._told else await anext(self._events)
        self._text.feed(event)
        blocked = self._blocked.feed(event)
        if blocked is not None:
            self._told.append(blocked)
        return event

    async def aclose(self) -> None:
        """End the run, if it has not ended, and wait until nothing of it is left."""
        await self._events.aclose()

    async def _yielded(self) -> AsyncIterator[AgentEvent]:
        # This runs in a task of its own from its first step to its last, so the scope ends with it.
        began = monotonic()
        runtime = budgeted(
            self._runtime,
            self.context.budget,
            warn=self._events.put,
            seconds=lambda: monotonic() - began,
        )
        surround(Scope(runtime, self.context, self._agent))
        join_hook_registry(self.hook_registry)
        loop = begin(self._loop, self.context)
        try:
            async for yielded in loop:
                event = as_event(yielded)
                if event is not None:
                    yield event
        finally:
            await close(loop)

    @property
    def messages(self) -> Messages:
        """The history: the run's own list, which may be ahead of the events read so far."""
        return self.context.messages

    @property
    def last_turn(self) -> list[Message]:
        """The last turn as far as it came, also when it failed: complete blocks and results.

        What is missing for a whole turn is mended when the history is sent to a model again.
        """
        return self._runtime.last_turn

    @property
    def blocked(self) -> bool:
        """Whether all open work waited for hooks when the last event was read."""
        return self._blocked.is_blocked

    @property
    def deferred_hooks(self) -> list[HookEvent]:
        """The hooks that were open when the last event was read, as they asked."""
        return list(self._blocked.hooks.values())

    @property
    def usage(self) -> Usage:
        """What all replies so far have cost."""
        return self._runtime.usage

    @property
    def output(self) -> Any:
        """What the loop set as the output, or the text of the last turn that was read here.

        Raises:
            ValidationError: When the text does not fit the run's output type.
        """
        if self.context.output is not None:
            return self.context.output
        return read_output(self._text.text, self.context.output_type)


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
