"""`LLM`: an agent of the kit, built word by word; each word gives a new one."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Self, Unpack, cast

from loops.blocks import Raw
from loops.closing import close
from loops.context import Context
from loops.errors import SetupError
from loops.guard import Raised, outcome_of
from loops.local import LocalRuntime
from loops.model import ModelPort
from loops.naming import NAME_RULE, is_name, refuse_unknown
from loops.runtime import Scope, active_scope, scoped
from loops.tools import Tool

from .checks import check, check_answers, check_capabilities, check_price
from .default_loop import default_loop
from .handlers import Handler
from .limits import LimitOptions, Limits
from .making import make_provider
from .options import ToolSource
from .provider import Provider
from .session import Session
from .toolbox import Entry, Own, OwnOptions, SearchMode, Toolbox, capabilities
from .turn import Turn

KitLoop = Callable[..., AsyncIterator[Any]]
"""An async generator function that takes its run's `context` and what the agent has, by name."""


class LLM:
    """An agent of the kit. Every method returns a new one; the one that it is asked of stays.

    It is an agent of an `App` as it is: `App(agents={"chat": LLM().model("acme/x")})`.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._given: Mapping[str, Any] = given or _USUAL

    def _with(self, **given: Any) -> Self:
        check(given)
        return type(self)({**self._given, **given})

    @property
    def _own(self) -> Mapping[str, Own]:
        own: Mapping[str, Own] = self._given.get("own", {})
        return own

    def model(self, model: "str | ModelPort | Provider") -> Self:
        """Ask this model: `vendor/model`, or a port or a provider of one's own."""
        return self._with(model=model)

    def system(self, text: str) -> Self:
        """Give the model these instructions."""
        return self._with(system=text)

    def tools(self, tools: Iterable[Raw | Tool]) -> Self:
        """Offer these tools in the place of those before: dicts that `on` answers, or tools."""
        given = cast("object", tools)
        return self._with(tools=list(tools) if isinstance(given, Iterable) else given)

    def allowed_tools(self, names: Iterable[str]) -> Self:
        """Offer these built-in ones instead of those before: Bash, Editor, WebFetch, WebSearch.

        Names of other programs' tools are passed over; what is nearly one of these is refused.
        """
        listed = [names] if isinstance(names, str) else list(names)
        check_capabilities(listed)
        return self._with(allowed_tools=listed)

    def max_tokens(self, count: int) -> Self:
        """Let a reply be so long."""
        return self._with(max_tokens=count)

    def context(self, count: int) -> Self:
        """Say how many tokens the model sees."""
        return self._with(context_window=count)

    def price(
        self,
        *,
        input: float = 0.0,  # noqa: A002 - what a price list calls it
        output: float = 0.0,
        cache_read: float = 0.0,
        cache_write: float = 0.0,
    ) -> Self:
        """Say what a million tokens cost."""
        told = {
            "input": input,
            "output": output,
            "cache_read": cache_read,
            "cache_write": cache_write,
        }
        check_price(told)
        return self._with(price=told)

    def bash_timeout(self, seconds: float) -> Self:
        """Let a command take so many seconds."""
        return self._with(bash_timeout=seconds)

    def base_url(self, url: str) -> Self:
        """Ask at this address."""
        return self._with(base_url=url)

    def api_key(self, key: str) -> Self:
        """Ask with this key."""
        return self._with(api_key=key)

    def headers(self, headers: Mapping[str, str] | None) -> Self:
        """Send these headers with each request; None for none."""
        return self._with(headers=dict(headers) if headers else None)

    def extra_body(self, params: Mapping[str, Any] | None) -> Self:
        """Send these fields with each request; they go before all others."""
        return self._with(extra_body=dict(params) if params else None)

    def thinking(self, spec: Any) -> Self:
        """Say how much the model may think: None, "adaptive", a level, or a number of tokens."""
        return self._with(thinking=spec)

    def vision(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - the kit's own form
        """Say whether the model sees pictures."""
        return self._with(vision=enabled)

    def web_search(self, mode: SearchMode = "brave") -> Self:
        """Say who searches: a function, "brave", or "native" for the model's own service.

        Raises:
            SetupError: When it is none of these.
        """
        if not callable(mode) and mode not in {"brave", "native"}:
            raise SetupError(f"who searches is a function, 'brave' or 'native', not {mode!r}")
        return self._with(web_search=mode)

    def mcp(self, *servers: ToolSource) -> Self:
        """Offer the tools of these servers besides."""
        return self._with(mcp=[*self._given.get("mcp", ()), *servers])

    def titles(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - as the others
        """Let the loop name new conversations; a request more for each."""
        return self._with(titles=enabled)

    def limits(self, **limits: Unpack[LimitOptions]) -> Self:
        """Say how far a run may go: `steps`, `cost`, `repeats`; the others stay as they were."""
        refuse_unknown(limits, LimitOptions.__annotations__, subject="limits()")
        return self._with(limits=replace(self._given.get("limits", Limits()), **limits))

    def on(self, name: str, handler: Handler, **options: Unpack[OwnOptions]) -> Self:
        """Answer the calls of a tool by a function of the arguments, and perhaps of the context.

        Raises:
            SetupError: When the name is none, or the function cannot be called like that.
        """
        if not is_name(name):
            raise SetupError(f"a tool's name is {NAME_RULE}, not {name!r}")
        refuse_unknown(options, OwnOptions.__annotations__, subject=f"on({name!r}, …)")
        own = Own(handler, **options)
        own.entry(name, None)
        return self._with(own={**self._own, name: own})

    def loop(self, function: KitLoop) -> Self:
        """Decide by a loop of one's own, which is given what the agent has by name.

        Raises:
            SetupError: When it is no async generator function.
        """
        if not callable(function) or iscoroutinefunction(function):
            raise SetupError(f"a loop is an async def with a yield in it, not {function!r}")
        return self._with(loop=function)

    async def run(self, *, context: Context, client: Any = None) -> AsyncIterator[Any]:
        """Yield what the loop yields: strings and dicts.

        A `Turn` among it is taken out, and given to the run's open `Session`, once.

        Raises:
            SetupError: When there is no model.
        """
        if self._given.get("model") is None:
            raise SetupError("the agent has no model; LLM().model('vendor/model') gives it one")
        self._check_answers()
        loop: KitLoop = self._given.get("loop") or default_loop
        events = loop(**self._options(context, client))
        try:
            while True:
                # The surroundings are the loop's only while it works, not while its reader does.
                with self._surrounding(context):
                    event = await outcome_of(events.__anext__)
                if isinstance(event, Turn):
                    _keep(context, event)
                elif not isinstance(event, Raised):
                    yield event
                elif isinstance(event.error, StopAsyncIteration):
                    return
                else:
                    raise event.error
        finally:
            with self._surrounding(context):
                await close(events)

    def _surrounding(self, context: Context) -> AbstractContextManager[None]:
        scope = active_scope()
        if scope is not None:
            return scoped(replace(scope, agent=self))
        if context.runtime is None:
            context.runtime = LocalRuntime(context.tool_context())
        return scoped(Scope(context.runtime, context, self))

    def _options(self, context: Context, client: Any) -> dict[str, Any]:
        """Return what a loop is given."""
        given = {name: self._given[name] for name in self._given if name not in _OURS}
        disabled = set(getattr(context, "disabled_tools", ()))
        allowed = [each for each in given.pop("allowed_tools", ()) if each not in disabled]
        return {
            **dict.fromkeys(_TOLD),
            **given,
            "allowed_tools": allowed,
            "context": context,
            "client": client,
            "handlers": {name: own.handler for name, own in self._own.items()},
            "approvals": tuple(context.approvals),
            "declined": tuple(context.declined),
            "auto": context.auto,
        }

    # -- as an agent of an app

    def agent_loop(self, context: Context) -> AsyncIterator[Any]:
        """Return the loop of a run."""
        return self.run(context=context)

    def agent_tools(self) -> list[Tool]:
        """Return the tools whose calls other workers may carry out.

        Raises:
            SetupError: When a function answers a tool that no model is told of.
        """
        self._check_answers()
        return self.toolbox.tools

    def _check_answers(self) -> None:
        # A loop of one's own may tell its model of other tools.
        if "loop" not in self._given:
            check_answers(self._given.get("tools") or (), self._own)

    @cached_property
    def toolbox(self) -> Toolbox:
        """All tools that the agent may call."""
        given = self._given
        known = capabilities(
            bash_timeout=timedelta(seconds=given.get("bash_timeout") or 600.0),
            web_search=given.get("web_search") or "brave",
        )
        names = given.get("allowed_tools", ())
        entries = [entry for name in names for entry in known.get(name, ())]
        entries += [Entry(server.tool()) for server in given.get("mcp", ())]
        return Toolbox(entries, self._own, given.get("tools") or ())

    def provider(self) -> Any:
        """Return the provider of the agent's model.

        Raises:
            SetupError: When it has none.
        """
        given = self._given
        if given.get("model") is None:
            raise SetupError("the agent has no model; LLM().model('vendor/model') gives it one")
        connection = {name: given.get(name) for name in ("base_url", "api_key", "headers")}
        return make_provider(given["model"], vision=given["vision"], **connection)


_USUAL: Mapping[str, Any] = {"system": "", "thinking": "adaptive", "vision": True}

_OURS = frozenset({"own", "loop"})
"""What no loop is told."""

_TOLD: Sequence[str] = (
    *("system", "tools", "model", "max_tokens", "bash_timeout", "base_url", "api_key", "headers"),
    *("thinking", "web_search", "price", "context_window", "extra_body", "mcp", "mcp_servers"),
)
"""What a loop is told in any case; None where the agent does not say."""


def _keep(context: Context, turn: Turn) -> None:
    if isinstance(context.handle, Session):
        context.handle.add_turn(turn)
