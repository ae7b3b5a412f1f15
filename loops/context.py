"""What a loop knows of its run, and what it decides with: history, inputs, the next turn."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast, overload

import orjson

from .bound_call import BoundToolCall
from .budget import Budget
from .child_run import ChildRequest, ChildRun
from .errors import SetupError, TurnLimitExceeded
from .interrupted import Interrupted
from .jsonable import jsonable
from .messages import Message, MessageLike, Messages, ToolCall, as_message
from .model import ModelPort, ModelRequest, resolve_model
from .runtime import Runtime, active_scope, fallback_runtime
from .tool_context import ToolContext
from .tool_list import tools_by_name
from .tools import Tool

T = TypeVar("T")


_STORED = ("model", "system", "params", "max_tokens", "session", "metadata", "max_turns")


def _time() -> str:
    return datetime.now(UTC).isoformat()


@dataclass(kw_only=True)
class Context:
    """One run, as its loop sees it; only the loop changes its messages."""

    messages: Messages = field(default_factory=Messages)
    """The history, oldest first; given as messages, plain dicts or strings."""
    model: str | ModelPort | None = None
    system: str = ""
    tools: Sequence[Tool] = ()
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the provider takes, by its own names; see `ModelRequest`."""
    max_tokens: int | None = None
    output_type: Any = None
    """The type that the final text is read as; None for text."""
    run: str = ""
    origin: str = ""
    """The run with whose work this one goes on; empty where it began by itself."""
    session: str | None = None
    attempt: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    chat_id: str | None = None
    """The session's id, by the name that the loop kit has for it."""
    user: Any = None
    workspace: Any = None
    approvals: Sequence[str] = ()
    declined: Sequence[str] = ()
    auto: bool = True
    max_turns: int = 50
    budget: Budget | None = None
    """How much the run may take besides."""
    output: Any = None
    """What the run gives; None for the text of its last turn."""
    turns: int = 0
    """How many turns this pass has begun."""
    interrupted: Interrupted | None = field(default=None, repr=False)
    """The turn in whose middle the history ends; the next stream goes on with it."""
    marker: Mapping[str, Any] | None = field(default=None, repr=False)
    """What stands at the front of the history for its older part, and where the rest begins."""
    handle: Any = field(default=None, repr=False, compare=False)
    """The open `Session` of a loop of the kit."""
    sessions: Any = field(default=None, repr=False, compare=False)
    """Where the kit keeps sessions, in one process; None for the memory of this process."""
    _went_on_at: int = field(default=-1, init=False, repr=False, compare=False)
    """The turn after which the loop went on for what was said to it."""
    runtime: Runtime | None = field(default=None, repr=False)
    """The runtime outside of any scope; inside, the scope's goes before it."""

    def __post_init__(self) -> None:
        self.messages = Messages.of(self.messages)
        self.session = self.session or self.chat_id
        self.chat_id = self.chat_id or self.session

    @property
    def last_message(self) -> str:
        """The text of the newest message; empty when there is none."""
        return self.messages[-1].text if self.messages else ""

    def keep_running(self) -> bool:
        """Say whether there is something left to answer.

        Raises:
            TurnLimitExceeded: When a turn past `max_turns` would begin.
        """
        if self.interrupted is not None:
            return True
        last = self.messages[-1] if self.messages else None
        if last is None or any(block.deferred for block in last.tool_results):
            return False
        if last.role == "assistant":
            return self._goes_on_steered()
        if self.turns >= self.max_turns:
            raise TurnLimitExceeded(self.max_turns)
        return True

    def _goes_on_steered(self) -> bool:
        """Say whether there is another turn for what was said meanwhile: once in the same place.

        A loop that does not ask by this context never takes it in.
        """
        scope = active_scope()
        # What is said to a run is said to its own history, not to one that its loop made besides.
        is_steered = scope is not None and scope.context is self and scope.runtime.is_steered
        if not is_steered or self._went_on_at == self.turns or self.turns >= self.max_turns:
            return False
        self._went_on_at = self.turns
        return True

    async def take_steers(self) -> None:
        """Append what was said to the run since its last turn; a stream of this context does so."""
        scope = active_scope()
        if scope is not None and scope.context is self:
            self.add(await scope.runtime.steers())

    def add(self, added: MessageLike | Iterable[MessageLike] | None) -> None:
        """Append a message, or several, to the history; None is passed over.

        So is the message of an interrupted turn, which stands there.
        """
        if added is None or (self.messages and added is self.messages[-1]):
            return
        if isinstance(added, (Message, str, Mapping)):
            self.messages.append(as_message(cast("MessageLike", added)))
        else:
            self.messages.extend(as_message(each) for each in added)

    @overload
    def resolve(self, call: ToolCall) -> BoundToolCall: ...
    @overload
    def resolve(self, call: Sequence[ToolCall]) -> list[BoundToolCall]: ...
    def resolve(self, call: ToolCall | Sequence[ToolCall]) -> BoundToolCall | list[BoundToolCall]:
        """Return the call bound to its tool; one of an unknown tool gets an error result."""
        tools = tools_by_name(self.tools)
        if isinstance(call, ToolCall):
            return BoundToolCall(call, tools.get(call.name), self.current_runtime)
        return [BoundToolCall(each, tools.get(each.name), self.current_runtime) for each in call]

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Return what the function gives, and do not call it again when the run is resumed.

        Raises:
            DuplicateName: When a step of this name is being taken already.
        """
        return await self.current_runtime().step(name, function)

    async def now(self) -> datetime:
        """Return the time, in UTC; a resumed run gets the same again.

        In tasks that run side by side take it in a `step`, whose name tells them apart.
        """
        return datetime.fromisoformat(await self.current_runtime().note("now", _time))

    async def sleep(self, duration: timedelta | float) -> None:
        """Wait for a duration, or for so many seconds; a resumed run waits for what is left of it.

        On workers a run that sleeps holds nothing of any worker for long.
        """
        given = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        await self.current_runtime().sleep(given)

    async def run_agent(
        self,
        agent: object,
        messages: Iterable[MessageLike] | MessageLike,
        *,
        budget: Budget | None = None,
        timeout: timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChildRun:
        """Start a run of another agent and return what came of it, once it has completed.

        On workers it is a run of its own, with its own events, session and slot; this one holds
        nothing while it waits. It takes of this run's budget, and is cancelled when this run ends.
        A resumed run does not start it again. Several may run side by side.

        Args:
            agent: Its name in the app, or the agent itself.
            messages: What it is asked.
            budget: How much it may take; never more than is left of this run's.
            timeout: How long it may compute; None for the configured limit.
            metadata: What is kept with it.

        Raises:
            ChildFailed: When it failed, was cancelled, or would nest too deep.
            UnknownLoop: When there is no such agent.
            BudgetExceeded: When nothing is left of this run's budget.
        """
        request = ChildRequest(agent, Messages.of(messages), budget, timeout, metadata or {})
        return (await self.current_runtime().run_agent(request)).completed()

    async def random(self) -> float:
        """Return a number from 0 up to 1; a resumed run gets the same again, as with `now`."""
        return await self.current_runtime().note("random", random.random)  # noqa: S311 - no secret hangs on it

    @property
    def replaying(self) -> bool:
        """Whether a resumed run has not yet come to where it was before.

        Meanwhile nothing is asked or called anew; the code between runs again all the same.
        """
        return self.current_runtime().replaying

    def current_runtime(self) -> Runtime:
        """Return the runtime of the surrounding run, or of this context alone."""
        scope = active_scope()
        if scope is not None:
            return scope.runtime
        if self.runtime is None:
            self.runtime = fallback_runtime()
        return self.runtime

    def request(self) -> ModelRequest:
        """Return what the model is asked next: a copy, which later changes do not touch."""
        return ModelRequest(
            model=self.model if isinstance(self.model, str) else self.port().name,
            messages=tuple(self.messages),
            system=self.system,
            tools=tuple(each.spec for each in tools_by_name(self.tools).values()),
            max_tokens=self.max_tokens,
            params=dict(self.params),
        )

    def to_json(self) -> bytes:
        """Return what a run is gone on with elsewhere: history, model, system, limits, metadata.

        Tools and the output's type are code, and belong to whoever goes on.

        Raises:
            SetupError: When the model is an object: only a name can be found again.
        """
        if not isinstance(self.model, str | None):
            raise SetupError(f"the model {self.model!r} is an object; name it to store the context")
        told = {name: getattr(self, name) for name in _STORED}
        return orjson.dumps({**jsonable(told), "messages": self.messages.raw})

    @classmethod
    def from_json(cls, stored: bytes | str, *, tools: Sequence[Tool] = ()) -> "Context":
        """Return the context that was stored, with these tools."""
        told: dict[str, Any] = orjson.loads(stored)
        known = {name: told[name] for name in (*_STORED, "messages") if name in told}
        return cls(**known, tools=tools)

    def port(self) -> ModelPort:
        """Return the port of the model.

        Raises:
            SetupError: When there is no model, or none of its name.
        """
        if self.model is None:
            raise SetupError("the run has no model; give the agent or the call a model=")
        return resolve_model(self.model)

    def tool_context(self) -> ToolContext:
        """Return what every tool of the run may know; each call adds its own."""
        return ToolContext(
            user=self.user,
            workspace=self.workspace,
            chat_id=self.chat_id,
            approvals=frozenset(self.approvals),
            auto=self.auto,
            run=self.run,
            origin=self.origin,
        )
