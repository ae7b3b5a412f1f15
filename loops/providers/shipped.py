"""The vendors whose models can be named without more ado: `anthropic/…`, `openai/…`, `groq/…`."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial

import httpx

from loops.model import ProviderFactory, provider_of, register_provider

from .anthropic import AnthropicModel
from .openai import OpenAIModel
from .vendors import VENDORS

SHIPPED: Mapping[str, ProviderFactory] = {
    "anthropic": AnthropicModel,
    **{vendor: partial(OpenAIModel, vendor=vendor, silent=set()) for vendor in VENDORS},
}


@contextmanager
def sharing(client: httpx.AsyncClient) -> Generator[None]:
    """Let the shipped providers use one client while the block runs.

    Without it each reply has a connection of its own. What a program registered itself, in place
    of a shipped provider, stays as it is.
    """
    shared = {
        vendor: partial(factory, client=client)
        for vendor, factory in SHIPPED.items()
        if provider_of(vendor) is factory
    }
    for vendor, factory in shared.items():
        register_provider(vendor, factory)
    try:
        yield
    finally:
        for vendor, factory in shared.items():
            if provider_of(vendor) is factory:
                register_provider(vendor, SHIPPED[vendor])
