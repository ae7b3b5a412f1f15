"""A model behind the runtime, as a provider of the kit.

Whoever asks through it asks through the run's runtime: on workers the reply is recorded, and a run
that is resumed is given it again.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.blocks import Raw
from loops.closing import close
from loops.errors import Incomplete
from loops.jsonable import jsonable
from loops.messages import Messages
from loops.model import ModelPort, ModelRequest, ToolSpec
from loops.runtime import Runtime, active_scope, fallback_runtime

from .plain import said, without_pictures
from .shown import Reading, Shown
from .toolbox import Toolbox
from .turn import Turn

MCP_BETA = "mcp-client-2025-04-04"
"""By which Anthropic's service is told that it is to ask servers of MCP itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the parts of a request in the kit's own shape."""

    messages: Sequence[Raw]
    system: str = ""
    tools: Sequence[Raw] = ()
    max_tokens: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


class PortProvider:
    """One model, asked through the runtime of the run that surrounds the caller.

    Args:
        port: The model.
        vision: Whether it sees pictures; if not, a line stands in the place of each.
        tries: How often it is asked when it fails at once; None for as often as the runtime does.
    """

    def __init__(self, port: ModelPort, *, vision: bool = True, tries: int | None = None) -> None:
        self.model = port.name
        self.port = port
        self._vision = vision
        self._tries = tries
        self._alone: Runtime | None = None

    def asked_once(self) -> "PortProvider":
        """Return the provider for a loop that asks again by itself."""
        return PortProvider(self.port, vision=self._vision, tries=1)

    def behind(self, port: ModelPort) -> "PortProvider":
        """Return the provider whose model is asked through another port."""
        return PortProvider(port, vision=self._vision, tries=self._tries)

    def aside(self) -> list[dict[str, Any]]:
        """Take what a provider of one's own has shown besides its reply."""
        shown: deque[dict[str, Any]] | None = getattr(self.port, "aside", None)
        taken = list(shown or ())
        if shown:
            shown.clear()
        return taken

    async def stream(
        self,
        *,
        messages: Sequence[Raw],
        system: str = "",
        tools: Sequence[Raw] = (),
        max_tokens: int | None = None,
        **more: Any,
    ) -> AsyncIterator[Any]:
        """Yield the reply: dicts and strings, and then one `Turn`.

        Args:
            messages: The history, as plain dicts in Anthropic's shape.
            system: The instructions.
            tools: Tools as `build_tools` gives them.
            max_tokens: How long the reply may be.
            more: `thinking`, `extra_body`, `mcp_servers`; whatever else is passed over.

        Raises:
            ProviderError: When the service fails.
        """
        question = Question(messages, system, tools, max_tokens, _params(tools, more))
        reading = Reading(frozenset(_named(tools)), toolbox_here().hides)
        runtime, beside = self._runtime(), list[dict[str, Any]]()
        turn = await runtime.open_turn(self._request(question), self.port)
        reply = turn.events()
        try:
            async for event in reply:
                beside += (taken := self.aside())
                for shown in (*_of_turn(taken, turn.number), *reading.take(event)):
                    yield shown
        finally:
            if not reading.has_ended:
                await turn.leave()
            await close(reply)
        whole = self._whole(reading)
        for shown in _of_turn(await self._noted(runtime, beside), turn.number):
            if whole.replayed:
                yield shown
        yield whole

    def _whole(self, reading: Reading) -> Turn:
        if not reading.has_ended:
            raise Incomplete(f"the reply of {self.model!r} broke off before its end; ask again")
        return reading.turn()

    async def _noted(self, runtime: Runtime, beside: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what the provider has shown beside its reply, also where the run is resumed.

        There it is shown again, or else it stood for the same of a later turn.
        """
        if not hasattr(self.port, "aside"):
            return []
        return await runtime.note("aside", lambda: jsonable(beside))

    async def complete(self, *, messages: Sequence[Raw], system: str, max_tokens: int) -> str:
        """Return the text of a whole reply.

        Raises:
            ProviderError: When the service fails.
        """
        reply = self.stream(messages=messages, system=system, max_tokens=max_tokens)
        return "".join([each async for each in reply if isinstance(each, str)])

    def _runtime(self) -> Runtime:
        scope = active_scope()
        if scope is not None:
            return scope.runtime
        # One runtime for all turns outside of a run, so that it numbers them: keys of calls differ.
        self._alone = self._alone or fallback_runtime()
        return self._alone

    def _request(self, question: Question) -> ModelRequest:
        messages = question.messages if self._vision else without_pictures(question.messages)
        return ModelRequest(
            model=self.model,
            messages=tuple(Messages(said(messages))),
            system=question.system,
            tools=tuple(_specs(question.tools)),
            max_tokens=question.max_tokens,
            params=question.params,
            tries=self._tries,
        )


def toolbox_here() -> Toolbox:
    """Return the tools of the agent that surrounds the caller; an empty box where there is none."""
    scope = active_scope()
    toolbox = None if scope is None else getattr(scope.agent, "toolbox", None)
    return toolbox if isinstance(toolbox, Toolbox) else Toolbox((), {}, ())


def _of_turn(shown: Sequence[Mapping[str, Any]], turn: int) -> list[Shown]:
    return [Shown(each, turn=turn) for each in shown]


def _is_ours(tool: Raw) -> bool:
    """Say whether a tool is carried out by us, and not by the model's own service."""
    return bool(tool.get("type", "custom") == "custom")


def _specs(tools: Sequence[Raw]) -> list[ToolSpec]:
    return [
        ToolSpec(each["name"], each.get("description", ""), each["input_schema"])
        for each in tools
        if _is_ours(each)
    ]


def _named(tools: Sequence[Raw]) -> list[str]:
    return [each["name"] for each in tools if _is_ours(each)]


def _params(tools: Sequence[Raw], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else the model's own service is told."""
    params: dict[str, Any] = {}
    if more.get("thinking") is not None:
        params["thinking"] = more["thinking"]
    if more.get("extra_body"):
        params["extra_body"] = dict(more["extra_body"])
    if more.get("mcp_servers"):
        params["mcp_servers"] = list(more["mcp_servers"])
        params["betas"] = [MCP_BETA]
    native = [dict(each) for each in tools if not _is_ours(each)]
    return {**params, "tools": native} if native else params
