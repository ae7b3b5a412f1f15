"""A model as it was configured: where it is asked, what it costs, how much may be asked of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from loops.closing import closing
from loops.errors import Timeout
from loops.messages import Usage
from loops.model import Limits, MeteredPort, ModelPort, ModelRequest, make_port
from loops.reply import ModelEvent, StreamEnd

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in the currency of the price list."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    """As much as other input, where nobody said; so is `cache_write`."""
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """Return what a reply has cost; what the provider did not tell costs nothing."""
        cost = (
            (usage.input_tokens or 0) * self.input
            + (usage.output_tokens or 0) * self.output
            + (usage.cache_read_tokens or 0) * self._or_input(self.cache_read)
            + (usage.cache_write_tokens or 0) * self._or_input(self.cache_write)
        )
        return cost / MILLION

    def _or_input(self, price: float | None) -> float:
        return self.input if price is None else price


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a configuration says of a model."""

    model: str
    """`vendor/model`, as its provider knows it."""
    base_url: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int | None = None
    """The limit of a reply, where the request names none."""
    timeout: timedelta | None = None
    """How long a whole reply may take."""
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    max_agentic_loops: int | None = None
    """How often callbacks may have it asked again for one call, where this is said."""


class DeployedModel:
    """The port of a configured model."""

    def __init__(self, deployment: Deployment) -> None:
        """Make the port behind it.

        Raises:
            SetupError: When its vendor is not known, or it has no key.
        """
        given = {"base_url": deployment.base_url, "api_key": deployment.api_key}
        connection = {name: value for name, value in given.items() if value is not None}
        port = make_port(deployment.model, **connection)
        self._port = port
        self._deployment = deployment
        self.name = port.name
        own = port.limits if isinstance(port, MeteredPort) else Limits()
        told = deployment.limits
        self.limits = Limits(told.requests or own.requests, told.tokens or own.tokens)
        vendor = deployment.model.partition("/")[0]
        self.account = port.account if isinstance(port, MeteredPort) else vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply; its usage says what it has cost.

        Raises:
            Timeout: When the whole reply takes longer than it may.
            ProviderError: When the service fails otherwise.
        """
        if request.max_tokens is None:
            request = replace(request, max_tokens=self._deployment.max_tokens)
        return self.bounded(self._port.stream(request))

    @property
    def port(self) -> ModelPort:
        """The port behind it, which knows neither price nor limits."""
        return self._port

    @property
    def deployment(self) -> Deployment:
        """What the configuration says."""
        return self._deployment

    async def bounded(self, reply: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """Yield a reply of the port; its usage says what it has cost. The reply is closed.

        Raises:
            Timeout: When the whole reply takes longer than it may.
        """
        limit, clock = self._deployment.timeout, asyncio.get_running_loop()
        deadline = None if limit is None else clock.time() + limit.total_seconds()
        async with closing(reply):
            while (event := await _next(reply, deadline, self.name)) is not None:
                # Whoever reads a reply closes it.
                yield self.priced(event) if isinstance(event, StreamEnd) else event  # noqa: ASYNC119

    def priced(self, end: StreamEnd) -> StreamEnd:
        """Return the end of a reply with what it has cost."""
        price = self._deployment.price
        if price is None or end.usage is None:
            return end
        return replace(end, usage=end.usage.model_copy(update={"cost": price.of(end.usage)}))


async def _next(
    events: AsyncIterator[ModelEvent], deadline: float | None, model: str
) -> ModelEvent | None:
    if deadline is None:
        return await anext(events, None)
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(events, None)
    except TimeoutError as error:
        raise Timeout(
            f"the model {model!r} took longer for its reply than the timeout that is configured"
        ) from error
