"""Models behind OpenAI's Chat Completions, and behind all who speak that protocol."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import httpx
import orjson

from loops.closing import closing
from loops.errors import InvalidRequest, SetupError
from loops.model import ModelRequest
from loops.reply import ModelEvent

from .exchange import IDLE, Exchange, exchange
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
        idle: timedelta = IDLE,
    ) -> None:
        """Take what is not given from `OPENAI_BASE_URL` (with `/v1`) and `OPENAI_API_KEY`.

        A service of one's own may need no key: one is asked for only where no address is given.

        Raises:
            SetupError: When there is no key for OpenAI's own service.
        """
        base = base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        key = api_key or os.environ.get("OPENAI_API_KEY", "")
        if not key and base == BASE_URL:
            raise SetupError(
                f"the model '{vendor}/{name}' needs a key: set OPENAI_API_KEY, or give api_key"
            )
        self.name = f"{vendor}/{name}"
        self._model = name
        self._dialect = DIALECTS.get(vendor, Dialect())
        self._url = f"{base.rstrip('/')}/chat/completions"
        self._key = key
        self._client = client
        self._idle = idle
        self._tells_usage = True

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
                if has_said or not self._tells_usage or "stream_options" not in str(error):
                    raise
                # The service knows no such option; so it will not tell what replies cost.
                self._tells_usage = False
            else:
                return

    def _reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        body = to_wire(request, self._dialect, tells_usage=self._tells_usage)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        asked = Exchange(self._url, headers, orjson.dumps(body), self._idle)
        return exchange(asked, self.name, OpenAIReader(self.name), client=self._client)
