"""The gateway's callbacks, as the API knows them: what they may want of a stream, who wraps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loops.gateway.answering import listed
from loops.gateway.asked import GatewayRequest
from loops.gateway.claims import GATES
from loops.gateway.custom_logger import overrides
from loops.gateway.rounds import Surface
from loops.gateway.settings import GatewaySettings
from loops.providers.told import fields, word

WRAPPER = "async_post_call_streaming_iterator_hook"


@dataclass(frozen=True, slots=True)
class Watch:
    """The settings of a gateway, and its callbacks in their order."""

    settings: GatewaySettings = field(default_factory=GatewaySettings)
    callbacks: Sequence[object] = ()

    def looks_at(self, asked: GatewayRequest) -> bool:
        """Say whether a callback may take up calls of the reply."""
        gates = GATES[asked.surface]
        is_asked = any(overrides(each, gate) for each in self.callbacks for gate in gates)
        return asked.operation == "create" and is_asked

    def holds(self, asked: GatewayRequest) -> bool:
        """Say whether the request has a tool whose calls no caller is to see."""
        own = {name for each in self.callbacks for name in _own_tools(each)}
        return not own.isdisjoint(_tools(asked))

    def wrappers(self) -> list[object]:
        """Return the callbacks that wrap streams, the innermost first."""
        return [each for each in self.callbacks if overrides(each, WRAPPER)]


def _own_tools(callback: object) -> frozenset[str]:
    names: frozenset[str] = getattr(callback, "server_fulfilled_tool_names", frozenset[str]())
    return names


def _tools(asked: GatewayRequest) -> set[str]:
    tools = [fields(each) for each in listed(asked.body.get("tools"))]
    if asked.surface is Surface.MESSAGES:
        return {word(each.get("name")) for each in tools}
    return {word(fields(each.get("function")).get("name")) for each in tools}
