"""Models behind Anthropic's Messages: one request, one stream, one reply.

A reply that the service pauses (`pause_turn`) is asked to go on with what it has said so far, and
stays one reply.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TypedDict, Unpack

import httpx

from loops.blocks import Raw
from loops.closing import closing
from loops.errors import Refused, SetupError, Unavailable
from loops.jsonable import cut_text
from loops.messages import Message, Usage
from loops.model import Limits, ModelRequest
from loops.naming import refuse_unknown
from loops.reply import ModelEvent, StreamEnd, StreamStart

from .anthropic_request import to_wire
from .anthropic_wire import AnthropicReader
from .connection import address_of, connection_of, named
from .exchange import IDLE, Exchange, body_of, exchange
from .told import is_blank
from .vendors import ANTHROPIC

VERSION = "2023-06-01"

_BETA = "anthropic-beta"

PAUSES = 10
"""How often one reply may be paused by the service."""


class AnthropicOptions(TypedDict, total=False):
    """What else a model is made with."""

    client: httpx.AsyncClient | None
    caches: bool
    """Whether what stays the same from turn to turn is marked, so that it is read once."""
    idle: timedelta
    """How long nothing may come, and how long nothing but signs of life."""
    headers: Mapping[str, str]
    """What is sent with each request besides."""


class AnthropicModel:
    """One model of the service, or of one that speaks its protocol."""

    protocol = "messages"
    """What its service speaks."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        **options: Unpack[AnthropicOptions],
    ) -> None:
        """Take what is not given from `ANTHROPIC_BASE_URL` (without `/v1`), `ANTHROPIC_API_KEY`.

        Raises:
            SetupError: When there is no key, or an option does not exist.
        """
        refuse_unknown(options, AnthropicOptions.__annotations__, subject="AnthropicModel")
        self.name = f"anthropic/{name}"
        reached = connection_of(self.name, ANTHROPIC, base_url=base_url, api_key=api_key)
        if not reached.key:
            raise SetupError(
                f"the model {self.name!r} needs a key: give one for {reached.base_url!r}"
            )
        self._model = name
        self._url = address_of(reached.base_url, "/v1/messages")
        self._key = reached.key
        self.account = reached.account
        self.limits = Limits()
        self._client = options.get("client")
        self._caches = options.get("caches", True)
        self._idle = options.get("idle", IDLE)
        self._headers = named(options.get("headers", {}))

    def __repr__(self) -> str:
        return f"<AnthropicModel {self.name}>"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply.

        Raises:
            ProviderError: When the service fails; `retryable` says whether asking again may help.
        """
        asked = replace(request, model=self._model)
        first, pauses, usage = 0, 0, None
        while True:
            reader = AnthropicReader(self.name, first=first, secret=self._key)
            batches = exchange(self._exchange(asked), self.name, reader, client=self._client)
            async with closing(batches):
                async for events in batches:
                    for event in events:
                        if not (pauses and isinstance(event, StreamStart)):
                            yield event  # noqa: ASYNC119 - `closing` only closes
            usage = _sum(usage, reader.usage)
            if reader.stop_reason != "pause_turn":
                break
            pauses += 1
            if pauses > PAUSES:
                raise Unavailable(f"the model {self.name!r} paused its reply {pauses} times")
            first = reader.next_block
            content = [each for each in reader.content if not is_blank(each)]
            said = Message.from_raw({"role": "assistant", "content": content})
            asked = replace(asked, messages=(*asked.messages, said))
        if reader.stop_reason == "refusal":
            why = cut_text(reader.explanation, 200)
            raise Refused(f"the model {self.name!r} declined to answer{why and ': ' + why}")
        yield StreamEnd(stop_reason=reader.stop_reason, usage=usage)

    @property
    def client(self) -> httpx.AsyncClient | None:
        """The client that its requests share; None for one of its own for each."""
        return self._client

    def relay(self, body: Raw, headers: Mapping[str, str], *, path: str = "") -> Exchange:
        """Return a request in the service's own protocol, with our address, model and key.

        Args:
            body: What is sent, word for word but for the model.
            headers: What is sent besides, by names in lower case; ours go before them, but for the
                version, and betas are added to ours.
            path: What is asked for below Messages, as `/count_tokens`.
        """
        own = {"anthropic-version": VERSION, **headers, **self._headers}
        betas = [told[_BETA] for told in (self._headers, headers) if _BETA in told]
        if betas:
            own[_BETA] = ",".join(dict.fromkeys(",".join(betas).replace(" ", "").split(",")))
        own["x-api-key"] = self._key
        sent = body_of({**body, "model": self._model})
        return Exchange(f"{self._url}{path}", own, sent, self._idle, self._key)

    def _exchange(self, request: ModelRequest) -> Exchange:
        betas = request.params.get("betas", [])
        own = {"x-api-key": self._key, "anthropic-version": VERSION}
        headers = {**own, **self._headers}
        if betas:
            told = headers.get("anthropic-beta")
            headers["anthropic-beta"] = ",".join([*([told] if told else []), *betas])
        body = body_of(to_wire(request, caches=self._caches))
        return Exchange(self._url, headers, body, self._idle, self._key)


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    return (one + other) if one is not None and other is not None else one or other
