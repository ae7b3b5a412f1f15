"""The vendors whose models can be named without more ado: `anthropic/…` and `openai/…`."""

from collections.abc import Mapping
from functools import partial

from loops.model import ProviderFactory

from .anthropic import AnthropicModel
from .openai import OpenAIModel

SHIPPED: Mapping[str, ProviderFactory] = {
    "anthropic": AnthropicModel,
    "openai": partial(OpenAIModel, silent=set()),
}
