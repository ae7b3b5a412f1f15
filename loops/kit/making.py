"""Providers by the names of their models."""

from collections.abc import Mapping
from typing import Any

import httpx

from loops.errors import SetupError
from loops.model import ModelPort, make_port
from loops.providers.deployment import Price

from .asking import PortProvider
from .foreign import as_provider
from .priced import PricedPort
from .provider import Provider


def make_provider(
    model: "str | ModelPort | Provider",
    *,
    client: "httpx.AsyncClient | Provider | None" = None,
    vision: bool = True,
    **connection: Any,
) -> PortProvider:
    """Return the provider of a model, `vendor/model`.

    Args:
        model: Its name; a port or a provider of one's own stands for itself.
        client: The HTTP client to ask through; None for one of its own.
        vision: Whether the model sees pictures.
        connection: `base_url`, `api_key` and `headers`, where they are not the vendor's own.

    Raises:
        SetupError: When there is no such model, or it cannot be reached like that.
    """
    unknown = connection.keys() - {"base_url", "api_key", "headers"}
    if unknown:
        raise SetupError(
            f"a provider is made with base_url, api_key, headers, client and vision; not with "
            f"{sorted(unknown)[0]!r}"
        )
    given = {name: value for name, value in connection.items() if value}
    if client is not None:
        given["client"] = client
    if isinstance(model, str) and given:
        return PortProvider(make_port(model, **given), vision=vision)
    if given:
        raise SetupError(f"{model!r} is reached in its own way; give the connection to it")
    return as_provider(model, vision=vision)


def priced(provider: PortProvider, price: Mapping[str, float] | Price | None) -> PortProvider:
    """Return the provider whose replies say what they have cost."""
    if price is None:
        return provider
    told = price if isinstance(price, Price) else Price(**price)
    return provider.behind(PricedPort(provider.port, told))
