"""Models behind OpenAI's Chat Completions, and behind all who speak that protocol."""

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TypedDict, Unpack

import httpx

from loops.blocks import Raw
from loops.closing import closing
from loops.errors import InvalidRequest
from loops.model import Limits, ModelRequest
from loops.naming import refuse_unknown
from loops.reply import ModelEvent

from .connection import address_of, connection_of, named
from .exchange import IDLE, Exchange, body_of, exchange
from .openai_request import to_wire
from .openai_wire import OpenAIReader
from .thinking import wish_of
from .vendors import VENDORS, Dialect, Vendor

logger = logging.getLogger("loopmill.provider")


class OpenAIOptions(TypedDict, total=False):
    """What else a model is made with."""

    client: httpx.AsyncClient | None
    silent: set[str]
    """Keeps the addresses that do not know the option to tell what a reply has cost."""
    idle: timedelta
    """How long nothing may come, and how long nothing but signs of life."""
    headers: Mapping[str, str]
    """What is sent with each request besides."""


class OpenAIModel:
    """One model of a service."""

    protocol = "chat"
    """What its service speaks."""

    def __init__(
        self,
        name: str,
        *,
        vendor: str = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        **options: Unpack[OpenAIOptions],
    ) -> None:
        """Take what is not given from the vendor's variables, as `OPENAI_API_KEY`.

        `OPENAI_BASE_URL` names another address, with `/v1`. At an address that is given here, and
        not by the environment, a key has to be given here as well: the vendor's is for nobody else.
        A service of one's own may need none.

        Raises:
            SetupError: When there is no key for the vendor's own service, no address, or an option
                does not exist.
        """
        refuse_unknown(options, OpenAIOptions.__annotations__, subject="OpenAIModel")
        place = VENDORS.get(vendor, Vendor())
        self.name = f"{vendor}/{name}"
        reached = connection_of(self.name, place, base_url=base_url, api_key=api_key)
        self._model = name
        self._vendor = vendor
        # Who only speaks the protocol knows the first words of it.
        is_plain = vendor == "openai" and reached.base_url != place.base_url
        self._dialect = Dialect() if is_plain else place.dialect
        self._url = address_of(reached.base_url, "/chat/completions")
        self.account = reached.account
        self.limits = Limits()
        self._key = reached.key
        self._client = options.get("client")
        self._idle = options.get("idle", IDLE)
        self._silent = options.get("silent", set[str]())
        self._headers = named(options.get("headers", {}))

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.name}>"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply.

        Raises:
            ProviderError: When the service fails; `retryable` says whether asking again may help.
        """
        asked = replace(request, model=self._model)
        has_said = False
        while True:
            try:
                async with closing(batches := self._reply(asked)):
                    async for events in batches:
                        for event in events:
                            has_said = True
                            yield event  # noqa: ASYNC119 - `closing` only closes
            except InvalidRequest as error:
                is_known = self._url in self._silent
                if has_said or is_known or "stream_options" not in str(error):
                    raise
                self._silent.add(self._url)
            else:
                return

    @property
    def client(self) -> httpx.AsyncClient | None:
        """The client that its requests share; None for one of its own for each."""
        return self._client

    def relay(self, body: Raw, headers: Mapping[str, str]) -> Exchange:
        """Return a request in the service's own protocol, with our address, model and key.

        Args:
            body: What is sent, word for word but for the model.
            headers: What is sent besides, by names in lower case; ours go before them.
        """
        key = {"authorization": f"Bearer {self._key}"} if self._key else {}
        own = {**headers, **key, **self._headers}
        sent = body_of({**body, "model": self._model})
        return Exchange(self._url, own, sent, self._idle, self._key)

    def _reply(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        wish = wish_of(request.params)
        if wish is not None and wish.is_on and self._dialect.thinking is None:
            _warn_of(self._vendor)
        body = to_wire(request, self._dialect, tells_usage=self._url not in self._silent)
        own = {"authorization": f"Bearer {self._key}"} if self._key else {}
        headers = {**own, **self._headers}
        asked = Exchange(self._url, headers, body_of(body), self._idle, self._key)
        reader = OpenAIReader(self.name, secret=self._key)
        return exchange(asked, self.name, reader, client=self._client)


@cache
def _warn_of(vendor: str) -> None:
    """Say, once, that we do not know how to tell a vendor how much its models may think."""
    logger.warning(
        "we do not know how %r is told how much its models may think, so it was not told; give the "
        "vendor's own fields in params instead",
        vendor,
    )
