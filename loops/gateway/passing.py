"""Requests passed on to a provider that speaks as the caller does, and replies passed back."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from loops.closing import closing
from loops.messages import Usage
from loops.providers.anthropic import AnthropicModel
from loops.providers.exchange import Exchange, exchange
from loops.providers.openai import OpenAIModel
from loops.providers.raw import whole
from loops.reply import ModelEvent, StreamEnd, StreamStart

from .asked import PASSED_ON
from .relay_reader import READERS, RelayReader, end_of
from .relayed import Relayed
from .rounds import Surface
from .rows import BODY, packed

Spoken = AnthropicModel | OpenAIModel
"""A model whose provider speaks one of the two protocols."""


@dataclass(slots=True)
class Passing:
    """One request of a caller, to a model whose provider speaks as he does."""

    model: Spoken
    asked: Relayed
    limit: int | None = None
    """How long a reply may be, where the caller does not say it and the protocol wants it said."""
    reader: RelayReader | None = None
    """Who reads the rows, once there is somebody."""

    @property
    def usage(self) -> Usage | None:
        """What the reply has cost so far, where that is known."""
        return None if self.reader is None else self.reader.usage

    async def rows(self) -> AsyncIterator[ModelEvent]:
        """Yield the reply as the rows of a stream, as they come.

        Raises:
            ProviderError: When the service refuses, fails, falls silent or breaks off.
        """
        sent, name = self._sent(), self.model.name
        read_by = READERS[Surface(self.model.protocol)]
        reader = self.reader = read_by(name, secret=sent.secret, is_live=self.asked.is_live)
        batches = exchange(sent, name, reader, client=self.model.client)
        async with closing(batches):
            async for events in batches:
                for event in events:
                    yield event  # noqa: ASYNC119 - whoever reads a reply closes it
        yield StreamEnd(stop_reason=reader.stop_reason, usage=reader.usage)

    async def body(self) -> AsyncIterator[ModelEvent]:
        """Yield the reply as one row, whole.

        Raises:
            ProviderError: When the service refuses, fails, or answers with what is no reply.
        """
        surface, name = Surface(self.model.protocol), self.model.name
        has = "input_tokens" if self._counts else _FIELDS[surface]
        text, told = await whole(self._sent(), name, has=has, client=self.model.client)
        yield StreamStart(model=name)
        for event in packed([(BODY, text)]):
            yield event
        yield end_of(surface, told)

    @property
    def _counts(self) -> bool:
        return self.asked.operation == "count_tokens"

    def _sent(self) -> Exchange:
        """Return the caller's own request, with our key and our model's name."""
        body, model = dict(self.asked.body), self.model
        if self.asked.streams and not self._counts:
            body["stream"] = True
        else:
            body.pop("stream", None)
        if isinstance(model, OpenAIModel):
            return model.relay(body, {})
        if self.limit is not None and not self._counts:
            body.setdefault("max_tokens", self.limit)
        told = {name: each for name, each in self.asked.headers.items() if name in PASSED_ON}
        return model.relay(body, told, path="/count_tokens" if self._counts else "")


_FIELDS = {Surface.MESSAGES: "content", Surface.CHAT: "choices"}
"""What a whole reply of the protocol has, and nothing else."""
