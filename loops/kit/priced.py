"""A model whose replies say what they have cost, by a price list of the program's own."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from loops.closing import close
from loops.model import ModelPort, ModelRequest
from loops.providers.deployment import Price
from loops.reply import ModelEvent, StreamEnd

from .turn import Turn

MILLION = 1_000_000


class PricedPort:
    """The port behind it, whose usage has a cost."""

    def __init__(self, port: ModelPort, price: Price) -> None:
        self.name = port.name
        self._port = port
        self._price = price

    def __getattr__(self, name: str) -> Any:
        """Return what else the port has: its account and its limits, if it has some."""
        return getattr(self._port, name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply; its usage says what it has cost."""
        reply = self._port.stream(request)
        try:
            async for event in reply:
                if isinstance(event, StreamEnd) and event.usage is not None:
                    cost = self._price.of(event.usage)
                    yield replace(event, usage=event.usage.model_copy(update={"cost": cost}))
                else:
                    yield event
        finally:
            await close(reply)


def cost_of(turn: Turn, price: Price | None) -> float:
    """Return what a reply has cost; nothing where there is no price."""
    if price is None:
        return 0.0
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    cost = turn.input * price.input + turn.output * price.output
    return (cost + turn.cached * read + turn.cache_create * written) / MILLION
