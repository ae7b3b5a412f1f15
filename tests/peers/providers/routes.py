"""The ways on which our providers are asked to reach a model of other people's servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from loops.errors import ProviderError
from loops.fold import fold
from loops.messages import Message, Messages
from loops.model import ModelPort, ModelRequest, ToolSpec, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from loops.reply import ModelEvent, StreamEnd
from tests.peers.providers.servers import KEY

CITY: Mapping[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (
    ToolSpec("population", "Say how many people live in a city.", CITY),
    ToolSpec("now", "Say what time it is.", {"type": "object", "properties": {}}),
)

REQUEST = ModelRequest(
    model="", messages=tuple(Messages.of("How many people live there?")), tools=TOOLS
)


@dataclass(frozen=True, slots=True)
class Route:
    """The protocol in which a server is asked, and as whom LiteLLM asks aimock."""

    protocol: str
    server: str
    vendor: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.protocol, self.server, self.vendor)))


DIRECT = (Route("openai", "aimock"), Route("anthropic", "aimock"))
STREAMED = (
    *DIRECT,
    Route("openai", "litellm", "openai"),
    Route("openai", "litellm", "anthropic"),
    Route("anthropic", "litellm", "anthropic"),
    Route("anthropic", "litellm", "hosted_vllm"),
)
"""The ways on which what aimock streams is passed on as it comes."""
ROUTES = (*STREAMED, Route("anthropic", "litellm", "openai"))
"""All ways; on the last one LiteLLM asks for a whole answer in the Responses' protocol."""
MESSAGES = (Route("anthropic", "aimock"), Route("anthropic", "litellm", "anthropic"))
"""The ways on which Anthropic's words are passed on as they are."""


TOLD_TO_WAIT = (
    *DIRECT,
    Route("openai", "litellm", "openai"),
    Route("openai", "litellm", "anthropic"),
)
"""The ways on which we hear how long to wait: LiteLLM does not say it in Messages."""


def on(*routes: Route) -> pytest.MarkDecorator:
    """Run a test on each of the routes; its `peer` is the server there."""
    return pytest.mark.parametrize("peer", routes, ids=str, indirect=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one request."""

    events: Sequence[ModelEvent]
    error: ProviderError | None = None
    """What ended it, if it did not come to its end."""

    @property
    def message(self) -> Message:
        """The message that the events make."""
        return fold(self.events)

    @property
    def end(self) -> StreamEnd:
        """How the reply ended."""
        assert self.error is None
        assert isinstance(self.events[-1], StreamEnd)
        return self.events[-1]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        """Id, name and arguments of each call."""
        return [(call.id, call.name, call.input) for call in self.message.tool_calls]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that reached aimock."""

    at: datetime
    status: int
    """What it was answered with."""
    body: str
    """What it said, in the words of Chat Completions."""
    was_cut: bool
    """Whether its connection was cut in the middle of the answer."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that somebody else wrote, on one route."""

    route: Route
    url: str
    aimock: str
    """The address of aimock, whichever server is asked."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a user sets to reach the server."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
        }

    def named(self, model: str) -> str:
        """Return what a user calls the model, by which ours know the protocol."""
        route = self.route
        return f"{route.protocol}/{route.vendor}{route.vendor and '-'}{model}"

    def model(self, name: str, *, key: str = KEY) -> ModelPort:
        """Return our port of the model."""
        named = self.named(name).partition("/")[2]
        if self.route.protocol == "anthropic":
            return AnthropicModel(named, base_url=self.url, api_key=key)
        return OpenAIModel(named, base_url=f"{self.url}/v1", api_key=key)

    async def ask(self, name: str, *, key: str = KEY) -> Reply:
        """Ask the model something, with two tools on offer."""
        events: list[ModelEvent] = []
        try:
            async for event in ask(self.model(name, key=key), REQUEST):
                events.append(event)  # noqa: PERF401 - what came before a failure is kept
        except ProviderError as error:
            return Reply(events, error)
        return Reply(events)

    async def refuse_next(self) -> None:
        """Have aimock refuse the next request, and ask for a second's patience."""
        async with self._control() as control:
            answer = await control.post("/__aimock/error", json={"status": 429})
        answer.raise_for_status()

    async def asked(self) -> Sequence[Asked]:
        """Return what has reached aimock, the last one last."""
        async with self._control() as control:
            answer = await control.get("/__aimock/journal")
        entries = answer.raise_for_status().json()
        return [
            Asked(
                datetime.fromtimestamp(entry["timestamp"] / 1000, UTC),
                entry["response"]["status"],
                str(entry["body"]),
                was_cut=entry["response"].get("interrupted", False),
            )
            for entry in entries
        ]

    def _control(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.AsyncClient(base_url=self.aimock, headers=headers, verify=False)
