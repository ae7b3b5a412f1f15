"""Models behind OpenAI's Chat Completions, and behind all who speak that protocol."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx

from loops.closing import closing
from loops.errors import InvalidRequest, SetupError
from loops.model import Limits, ModelRequest
from loops.reply import ModelEvent

from .exchange import Exchange, account_of, address_of, body_of, exchange, key_of
from .openai_request import DIALECTS, Dialect, to_wire
from .openai_wire import OpenAIReader
from .vendors import OPENAI, VENDORS, Vendor


class OpenAIModel:
    """One model of a service."""

    def __init__(
        self,
        name: str,
        *,
        vendor: str = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: httpx.AsyncClient | None = None,
        silent: set[str] | None = None,
    ) -> None:
        """Take what is not given from the vendor's variables, as `OPENAI_API_KEY`.

        A service of one's own may need no key: one is asked for only at the vendor's own address.
        `OPENAI_BASE_URL` names another address, with `/v1`. `silent` keeps the addresses that do
        not know the option to tell what a reply has cost.

        Raises:
            SetupError: When there is no key for the vendor's own service, or no address.
        """
        place = VENDORS.get(vendor, Vendor("", ""))
        base = base_url or os.environ.get(place.address) or place.base_url
        key = key_of(api_key, place.key)
        if not key and place.key and base == place.base_url:
            raise SetupError(
                f"the model '{vendor}/{name}' needs a key: set {place.key}, or give api_key"
            )
        self.name = f"{vendor}/{name}"
        self._model = name
        # Who only speaks the protocol knows the first words of it.
        is_plain = vendor == "openai" and base != OPENAI.base_url
        self._dialect = Dialect() if is_plain else DIALECTS.get(vendor, Dialect())
        self._url = address_of(base, "/chat/completions")
        self.account = account_of(vendor, base, key)
        self.limits = Limits()
        self._key = key
        self._client = client
        self._silent = set[str]() if silent is None else silent

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
                async with closing(events := self._reply(asked)):
                    async for event in events:
                        has_said = True
                        yield event  # noqa: ASYNC119 - `closing` only closes
            except InvalidRequest as error:
                is_known = self._url in self._silent
                if has_said or is_known or "stream_options" not in str(error):
                    raise
                self._silent.add(self._url)
            else:
                return

    def _reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        body = to_wire(request, self._dialect, tells_usage=self._url not in self._silent)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        asked = Exchange(self._url, headers, body_of(body), secret=self._key)
        reader = OpenAIReader(self.name, secret=self._key)
        return exchange(asked, self.name, reader, client=self._client)
