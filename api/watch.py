"""The gateway's callbacks, as the API knows them: what they may want of a stream, who wraps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loops.gateway.answering import name_of_tool
from loops.gateway.asked import GatewayRequest
from loops.gateway.claims import GATES
from loops.gateway.methods import WRAPPER, overrides, own_tools
from loops.gateway.settings import GatewaySettings
from loops.providers.told import listed


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
        own = {name for each in self.callbacks for name in own_tools(each)}
        return not own.isdisjoint(map(name_of_tool, listed(asked.body.get("tools"))))

    def wrappers(self) -> list[object]:
        """Return the callbacks that wrap streams, the innermost first."""
        return [each for each in self.callbacks if overrides(each, WRAPPER)]
