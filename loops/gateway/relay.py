"""The models of a gateway: whatever their provider speaks, their replies are rows of the caller's.

A provider that speaks the caller's protocol is sent his request as it is, and its rows are passed
on word for word. Any other is asked in its own words, and its reply is written in the caller's.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

from loops.closing import closing
from loops.errors import InvalidRequest, ProviderError
from loops.model import Limits, MeteredPort, ModelPort, ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.deployment import DeployedModel
from loops.providers.openai import OpenAIModel
from loops.reply import Frames, ModelEvent, StreamEnd

from .failing import failure_of
from .passing import Passing, Spoken
from .reasons import CUT
from .relayed import Relayed
from .rendering import error_row
from .rewriting import estimated, rewritten
from .rounds import Surface
from .rows import packed


class RelayPort:
    """A model that is asked in the words of a caller: a request's `params` hold his request.

    They are `body`, his request; `headers`, those of his that may go on; `streams`, whether rows
    of a stream are wanted; `is_live`, whether somebody sees them as they come; and `operation`.
    """

    def __init__(self, model: ModelPort, surface: Surface) -> None:
        """Take what `resolve_model` gives; `surface` is what the caller speaks."""
        self._model = model
        self._surface = surface
        self._deployed = model if isinstance(model, DeployedModel) else None
        port = model if self._deployed is None else self._deployed.port
        self._spoken: Spoken | None = (
            port if isinstance(port, AnthropicModel | OpenAIModel) else None
        )
        self.name = model.name
        metered = model if isinstance(model, MeteredPort) else None
        self.account = model.name if metered is None else metered.account
        self.limits = Limits() if metered is None else metered.limits

    def __repr__(self) -> str:
        return f"<RelayPort {self.name} for {self._surface.value}>"

    @property
    def most_loops(self) -> int | None:
        """How often callbacks may have it asked again, where its configuration says it."""
        return None if self._deployed is None else self._deployed.deployment.max_agentic_loops

    @property
    def protocol(self) -> Surface | None:
        """What its provider speaks; None where that is neither of the two."""
        return None if self._spoken is None else Surface(self._spoken.protocol)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply: its start, its rows, its end.

        A live reply that breaks off ends with a row that tells the failure, and with `cut`.

        Raises:
            ProviderError: When the service fails before a row has come, or the reply is not live.
        """
        asked = Relayed.of(request.params)
        passing = self._passing(asked)
        events = ask(_Reply(self.name, partial(self._replied, asked, passing)), request)
        has_rows = False
        try:
            async with closing(events):
                async for event in events:
                    has_rows = has_rows or isinstance(event, Frames)
                    yield event  # noqa: ASYNC119 - whoever reads a reply closes it
        except ProviderError as error:
            if not (asked.is_live and has_rows):
                raise
            for event in packed([error_row(self._surface, failure_of(error))]):
                yield event
            usage = None if passing is None else passing.usage
            end = StreamEnd(stop_reason=CUT, usage=usage)
            yield end if self._deployed is None else self._deployed.priced(end)

    def _passing(self, asked: Relayed) -> Passing | None:
        """Return how the request is passed on; None where its provider speaks another protocol."""
        if self._spoken is None or self.protocol is not self._surface:
            return None
        limit = None if self._deployed is None else self._deployed.deployment.max_tokens
        return Passing(self._spoken, asked, limit)

    def _replied(self, asked: Relayed, passing: Passing | None) -> AsyncIterator[ModelEvent]:
        counts = asked.operation == "count_tokens"
        if counts and self._surface is not Surface.MESSAGES:
            raise InvalidRequest("only Messages has an operation that counts tokens", status=404)
        if passing is not None:
            is_whole = counts or not asked.streams
            reply = passing.body() if is_whole else passing.rows()
            return reply if self._deployed is None else self._deployed.bounded(reply)
        if counts:
            return estimated(self._model, asked.body)
        protocol = self.protocol or Surface.MESSAGES
        return rewritten(self._model, asked, self._surface, protocol)


class _Reply:
    """One reply as a port of its own, so that `ask` says in our words what fails in it."""

    def __init__(self, name: str, begin: Callable[[], AsyncIterator[ModelEvent]]) -> None:
        self.name = name
        self._begin = begin

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the reply, whatever the request: it was made of it."""
        del request
        return self._begin()
