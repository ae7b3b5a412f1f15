"""The port through which a loop causes effects, and the scope that a loop runs in.

What stands behind the port may be this process or a queue: the loop cannot tell.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from .child_run import ChildRequest, ChildRun
from .events import PartialToolCallResult
from .hook_registry import HookRegistry
from .messages import Message, ToolCall, ToolResult
from .model import ModelPort, ModelRequest
from .question import Answer, Question
from .reply import ModelEvent
from .tool_context import running_context
from .tools import Tool

T = TypeVar("T")


class OpenTurn(Protocol):
    """A turn that has been asked for."""

    @property
    def key(self) -> str:
        """The turn's id, which is the same in each pass of its run."""
        ...

    @property
    def number(self) -> int:
        """The ordinal of the turn in this pass, from 1."""
        ...

    def events(self) -> AsyncIterator[ModelEvent]:
        """Yield the reply once, each event stamped with the turn and held by nobody else.

        The turn is finished when the iterator is asked past its last event.
        """
        ...

    async def leave(self) -> None:
        """Finish the turn before its end: what was seen of it is the turn. No-op after the end."""
        ...


class Runtime(Protocol):
    """What a loop can ask for; every method may raise `RunLeft` in a pass that lost its run."""

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
        """Ask the model."""
        ...

    async def call(
        self, call: ToolCall, tool: Tool | None, overrides: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Start the call and wait for its result; a tool's failure is a result too.

        Args:
            call: The call.
            tool: The tool; None when the agent has none of this name, which is an error result.
            overrides: Arguments that replace those of the model.
        """
        ...

    def known(self, call: ToolCall) -> ToolResult | None:
        """Return the result that the run began with, of a call of an interrupted turn."""
        ...

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives; a resumed run does not call it again."""
        ...

    async def note(self, kind: str, give: Callable[[], T]) -> T:
        """Return what the function gives, as JSON keeps it; a resumed run gets the same again.

        Unlike a step it has no name and no event: equal kinds are told apart by the turn before
        them, and by their order.
        """
        ...

    async def open_hook(self, question: Question, registry: HookRegistry) -> Answer:
        """Ask the outside, and return how the hook was closed; found in the registry meanwhile.

        Raises:
            DuplicateName: When a hook of this label is open.
        """
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait; a resumed run waits for what is left of it."""
        ...

    async def run_agent(self, request: ChildRequest) -> ChildRun:
        """Start a run of another agent and wait for what comes of it, be it a failure.

        Raises:
            UnknownLoop: When there is no such agent.
            ChildFailed: When runs would nest too deep.
        """
        ...

    @property
    def is_steered(self) -> bool:
        """Whether something was said to the run that it has not taken in."""
        ...

    async def steers(self) -> Sequence[Message]:
        """Take in what was said to the run since its last turn; a resumed run takes the same."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether a resumed run has not yet come to where it was before."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether the runtime itself keeps what is added to the history, and lives on after us.

        Such a runtime also asks again by itself for a reply that broke off, and voids what was
        shown of it.
        """
        ...

    async def checkpoint(self, marker: Mapping[str, Any] | None = None) -> None:
        """Return when all that was yielded and added to the history so far is kept.

        Args:
            marker: What the session's next runs are shown instead of its earlier messages; its
                `first_kept` is the place in the history of the first message that is still shown.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What surrounds a loop while it runs."""

    runtime: Runtime
    context: object
    """The run's `Context`."""
    agent: object | None = None
    nesting: int = 0
    """How many runs are around this one."""
    start_child: Any = None
    """Begins a run of another agent of the app, in this process; None where there is no app."""


_scope: ContextVar[Scope] = ContextVar("loops_scope")


def active_scope() -> Scope | None:
    """Return the scope that surrounds the caller, or None outside of a run."""
    return _scope.get(None)


def current_scope() -> Scope:
    """Return the scope that surrounds the caller.

    Raises:
        LookupError: Outside of a run.
    """
    scope = _scope.get(None)
    if scope is None:
        raise LookupError("this works inside of a run only: in an agent's loop or in its tools")
    return scope


@contextmanager
def scoped(scope: Scope) -> Generator[None]:
    """Let the scope surround the block; enter and leave it in the same task."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


_fallbacks: list[Callable[[], Runtime]] = []


def set_fallback(factory: Callable[[], Runtime]) -> None:
    """Say which runtime serves a context outside of any scope."""
    _fallbacks[:] = [factory]


def fallback_runtime() -> Runtime:
    """Return a new runtime for a context outside of any scope.

    Raises:
        LookupError: When there is none.
    """
    if not _fallbacks:
        raise LookupError("there is no runtime here: run the loop by an agent or an app")
    return _fallbacks[0]()


def surround(scope: Scope) -> None:
    """Let the scope surround the rest of the current task, which is the scope's own.

    What a tool around it wants of its own partial results is no business of the scope's calls.
    """
    _scope.set(scope)
    partial_sink.set(None)
    running_context.set(None)


PartialSink = Callable[[PartialToolCallResult], None]

partial_sink: ContextVar[PartialSink | None] = ContextVar("loops_partial_sink", default=None)
"""Where a runtime may hand the partial results of the calls of this task, before their result.

A `ToolRunner` sets it around each call that it starts; a runtime that has them elsewhere does not
need it.
"""
