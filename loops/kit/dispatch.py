"""One call of a model: who answers it, what its reader is shown, and its one answer.

A tool that the agent offers on all workers is a job there; any other is carried out where the loop
runs, and its answer is recorded. Whatever a tool does, there is an answer.
"""

import logging
from collections.abc import Awaitable, Collection, Mapping, MutableSet
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypedDict, Unpack

import orjson

from loops.approval import approval_key, approved, card_key
from loops.approval import label_of as label_of_hook
from loops.blocks import Raw
from loops.context import Context
from loops.guard import Raised, outcome_of_call
from loops.hook_registry import HookRegistry, active_registry
from loops.local import LocalRuntime
from loops.messages import ToolCall, ToolResult
from loops.redact import hidden
from loops.runtime import Runtime, Scope, active_scope
from loops.tool_context import ToolContext

from .asking import toolbox_here
from .handlers import Handler, handler_of, handler_tool, label_of, told
from .planned import (
    Failure,
    Planned,
    arguments_in,
    call_of,
    card_of,
    handed_over,
    outcome,
    refused,
    step_of,
)
from .risk import risk
from .shown import CallBlock
from .toolbox import Entry, capabilities

_ACTING = ("user", "workspace", "approvals", "auto", "modes", "skills")
"""For whom a tool acts; the rest of its context is the call's own."""


logger = logging.getLogger("loopmill.kit")


class Surroundings(TypedDict, total=False):
    """What else decides how a call is carried out."""

    network: bool
    """Whether commands may reach the network."""
    seen: MutableSet[str]
    """The names of those tools of this turn that are called once at most."""
    ctx: ToolContext | None
    """For whom tools act; None for the run's own user."""
    used: MutableSet[str]
    """The keys of `ctx.approvals` that are used up: each is good for one call."""
    offered: Collection[str]
    """The names that the model was offered; those of the request that the block answers, where
    nobody says."""
    declined: Collection[str]
    """The keys of calls that a person has refused."""


def dispatch(
    block: Raw,
    workspace: object,
    timeout: float,
    handlers: Mapping[str, Handler] | None = None,
    **more: Unpack[Surroundings],
) -> tuple[Raw, Awaitable[Any]]:
    """Return what the reader is shown of a call, and what gives its answer when it is awaited.

    The answer is what the tool gave, or a text that begins with `Error:`; it is never raised.

    Args:
        block: The call, as it stands in a `Turn`.
        workspace: The folder that tools work in.
        timeout: Seconds that a command may take.
        handlers: Functions that answer calls, by name.
        more: See `Surroundings`. What was not offered to the model is refused.
    """
    planned = Desk(workspace, timeout, handlers or {}, **more).plan(block)
    return planned.step, planned.work()


class Desk:
    """Plans calls for one loop."""

    def __init__(
        self,
        workspace: object,
        timeout: float,
        handlers: Mapping[str, Handler],
        **more: Unpack[Surroundings],
    ) -> None:
        self._timeout = timedelta(seconds=timeout)
        self._handlers = handlers
        self._more = more
        self._seen = more.get("seen", set[str]())
        self._used = more.get("used", set[str]())
        scope, ctx = active_scope(), more.get("ctx")
        given = _given(scope)
        self._ctx = replace(ctx or given, workspace=workspace or (ctx or given).workspace)
        self._acts_otherwise = any(
            getattr(self._ctx, name) != getattr(given, name) for name in _ACTING
        )
        self._runtime: Runtime = LocalRuntime(self._ctx) if scope is None else scope.runtime
        self._toolbox = toolbox_here()
        self._labels: set[str] = set()

    def plan(self, block: Raw) -> Planned:
        """Return what is to be done for a call."""
        call, arguments = call_of(block)
        entry = self._entry(block, call.name)
        if entry is None:
            return refused(block, self._why_not(block, call.name[:64]))
        if entry.once:
            if call.name in self._seen:
                return refused(block, f"{call.name!r} may be called once in a turn")
            self._seen.add(call.name)
        told_of = hidden(arguments, entry.tool.redact)
        key = self._key(call, arguments, told_of)
        if key in self._more.get("declined", ()):
            return refused(block, "a person did not approve this call")
        label = outcome_of_call(partial(label_of, entry.label, told_of))
        shown = call.name if isinstance(label, Raised) else label
        is_asked = self._asks(entry, call, arguments, key)
        card = self._card(call, block, told_of, shown) if is_asked else None
        if card is not None and self._is_alone:
            return Planned(block, step_of(block, shown), partial(handed_over, card), entry)
        answer = partial(self._answer, entry, call, is_asked=is_asked)
        return Planned(block, step_of(block, shown), answer, entry, card)

    def _key(self, call: ToolCall, arguments: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
        """Return the call's key: where others see the card, nothing hidden is to be told by it."""
        if self._runtime.keeps:
            return card_key(call.name, shown, call.key)
        return approval_key(call.name, arguments)

    def _card(self, call: ToolCall, block: Raw, shown: Mapping[str, Any], label: str) -> Raw:
        registry = active_registry() or HookRegistry()
        name = label_of_hook(call, lambda name: registry.is_taken(name) or name in self._labels)
        self._labels.add(name)
        key = self._key(call, call_of(block)[1], shown)
        return card_of(block, shown, key=key, label=name, step=label or call.name)

    def _why_not(self, block: Raw, name: str) -> str:
        if name in (self._offered(block) or ()):
            logger.warning(
                "! nothing answers the tool %r: LLM().on(%r, …) says what does", name, name
            )
            return f"{name!r} cannot be called: this program has no function for it"
        return f"there is no tool named {name!r} that you may call"

    def _offered(self, block: Raw) -> Collection[str] | None:
        """Return the names of the tools that the model was offered; None where nobody knows."""
        offered = self._more.get("offered")
        return block.offered if offered is None and isinstance(block, CallBlock) else offered

    def _entry(self, block: Raw, name: str) -> Entry | None:
        offered = self._offered(block)
        if offered is not None and name not in offered:
            return None
        own = self._toolbox.get(name)
        handler = self._handlers.get(name)
        if handler is not None:
            return _answered_by(own, name, handler)
        if own is not None or offered is None:
            return own
        network = self._more.get("network", False)
        built_in = capabilities(bash_timeout=self._timeout, network=network)
        entries = (entry for each in built_in.values() for entry in each)
        return next((entry for entry in entries if entry.tool.name == name), None)

    def _asks(self, entry: Entry, call: ToolCall, arguments: Mapping[str, Any], key: str) -> bool:
        """Say whether a person is asked before the call is carried out."""
        if key in self._ctx.approvals and key not in self._used:
            self._used.add(key)
            return False
        wanted = outcome_of_call(partial(entry.tool.wants_approval, arguments))
        danger = risk(call.name, arguments)
        is_risky = danger == "destructive" or (danger is not None and not self._ctx.auto)
        return is_risky or wanted is True

    @property
    def _is_alone(self) -> bool:
        """Whether nobody could answer while the run goes on: no app runs it, in this process."""
        return active_registry() is None and not self._runtime.keeps

    async def _answer(self, entry: Entry, call: ToolCall, *, is_asked: bool) -> Any:
        tool = told(entry.tool, self._for_whom) if self._acts_otherwise else entry.tool
        if entry.via:
            arguments = outcome_of_call(call.parsed)
            if isinstance(arguments, Raised):
                return Failure(f"Error: {arguments.text}")
            wrapped = {"tool": entry.via, "arguments": arguments}
            call = replace(call, name=tool.name, arguments=orjson.dumps(wrapped).decode())
        if is_asked:
            granted = await approved(call, replace(tool, require_approval=True), self._runtime)
            if isinstance(granted, ToolResult):
                return outcome(granted)
            call = granted
        return outcome(await self._runtime.call(call, tool, self._overrides(call)))

    def _overrides(self, call: ToolCall) -> dict[str, Any] | None:
        """Return the time limit of a command, where the model wants more than it may have."""
        if call.name != "bash":
            return None
        limit = round(self._timeout / timedelta(milliseconds=1))
        wanted = arguments_in(call).get("timeout")
        is_less = isinstance(wanted, int) and 0 < wanted <= limit
        return None if is_less else {"timeout": limit}

    def _for_whom(self, context: ToolContext) -> ToolContext:
        return replace(context, **{name: getattr(self._ctx, name) for name in _ACTING})


def _answered_by(own: Entry | None, name: str, handler: Handler) -> Entry:
    """Return the tool of a handler: the agent's own, or one like it that the loop has wrapped."""
    if own is None:
        return Entry(handler_tool(name, handler), is_shown=True)
    if handler_of(own.tool) is handler:
        return own
    made = handler_tool(name, handler, {"input_schema": own.tool.schema})
    wrapped = replace(own.tool, function=made.function, check=made.check, context_parameter="ctx")
    return replace(own, tool=wrapped)


def _given(scope: Scope | None) -> ToolContext:
    """Return what the runtime itself tells a tool of whom it acts for."""
    context = scope.context if scope is not None else None
    return context.tool_context() if isinstance(context, Context) else ToolContext()
