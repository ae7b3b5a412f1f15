"""The vendors whose models can be named without more ado: `anthropic/…` and `openai/…`."""

from collections.abc import Mapping

from loops.model import ProviderFactory

from .anthropic import AnthropicModel
from .openai import OpenAIModel

SHIPPED: Mapping[str, ProviderFactory] = {"anthropic": AnthropicModel, "openai": OpenAIModel}
