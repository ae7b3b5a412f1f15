"""Models of both vendors at a service on loopback, and what is seen of their replies."""

from typing import Any

from loops.errors import ProviderError
from loops.messages import Messages
from loops.model import ModelPort, ModelRequest, ask
from loops.providers.anthropic import AnthropicModel
from loops.providers.openai import OpenAIModel
from loops.reply import ModelEvent, StreamEnd
from tests.loops.providers.service import Answer, Service, serving

VENDORS = {"anthropic": AnthropicModel, "openai": OpenAIModel}

Seen = tuple[list[ModelEvent], ProviderError | None]


def model_at(service: Service, vendor: str, **options: Any) -> ModelPort:
    """Return a model of the vendor's protocol that the service serves."""
    return VENDORS[vendor]("m", base_url=service.url, api_key="k", **options)


async def seen_of(port: ModelPort, *messages: Any) -> Seen:
    """Return the events of a reply, and the failure that ended it."""
    history = tuple(Messages.of(messages or ["hi"]))
    events: list[ModelEvent] = []
    try:
        async for event in ask(port, ModelRequest(model="m", messages=history)):
            events.append(event)  # noqa: PERF401 - what comes before a failure counts
    except ProviderError as error:
        return events, error
    return events, None


async def reply(vendor: str, *answers: Answer, **options: Any) -> list[ModelEvent]:
    """Return the events of a reply that comes to its end."""
    async with serving(*answers) as service:
        events, error = await seen_of(model_at(service, vendor, **options))
    assert error is None
    return events


async def failing(
    vendor: str, *answers: Answer, **options: Any
) -> tuple[list[ModelEvent], ProviderError]:
    """Return what comes before a failure, and the failure."""
    async with serving(*answers) as service:
        events, error = await seen_of(model_at(service, vendor, **options))
    assert error is not None
    return events, error


def end_of(events: list[ModelEvent]) -> StreamEnd:
    """Return the end of a reply."""
    assert isinstance(events[-1], StreamEnd)
    return events[-1]
