"""Models behind OpenAI's Chat Completions, and behind all who speak that protocol."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx

from loops.closing import closing
from loops.errors import InvalidRequest, SetupError
from loops.model import ModelRequest
from loops.reply import ModelEvent

from .exchange import Exchange, address_of, body_of, exchange, key_of
from .openai_request import DIALECTS, Dialect, to_wire
from .openai_wire import OpenAIReader

BASE_URL = "https://api.openai.com/v1"


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
        """Take what is not given from `OPENAI_BASE_URL` (with `/v1`) and `OPENAI_API_KEY`.

        A service of one's own may need no key: one is asked for only where no address is given.
        `silent` keeps the addresses that do not know the option to tell what a reply has cost.

        Raises:
            SetupError: When there is no key for OpenAI's own service.
        """
        base = base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        key = key_of(api_key, "OPENAI_API_KEY")
        if not key and base == BASE_URL:
            raise SetupError(
                f"the model '{vendor}/{name}' needs a key: set OPENAI_API_KEY, or give api_key"
            )
        self.name = f"{vendor}/{name}"
        self._model = name
        # Who only speaks the protocol knows the first words of it.
        is_plain = vendor == "openai" and base != BASE_URL
        self._dialect = Dialect() if is_plain else DIALECTS.get(vendor, Dialect())
        self._url = address_of(base, "/chat/completions")
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

    def _reply(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        body = to_wire(request, self._dialect, tells_usage=self._url not in self._silent)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        asked = Exchange(self._url, headers, body_of(body), secret=self._key)
        reader = OpenAIReader(self.name, secret=self._key)
        return exchange(asked, self.name, reader, client=self._client)
