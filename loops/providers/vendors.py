"""Where the services that speak Chat Completions are, and which variable has the key of each.

A vendor that is missing here can be reached all the same: as `openai/…` with an address of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """One service."""

    base_url: str
    """Its address, with the version in it."""
    key: str
    """The variable in which its key is looked for; empty for a service that needs none."""
    address: str = ""
    """The variable that may name another address."""


OPENAI = Vendor("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL")

VENDORS: Mapping[str, Vendor] = {
    "openai": OPENAI,
    "cerebras": Vendor("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "dashscope": Vendor(
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    "deepseek": Vendor("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "fireworks": Vendor("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": Vendor("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": Vendor("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Vendor("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "moonshot": Vendor("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "openrouter": Vendor("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "perplexity": Vendor("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "together": Vendor("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Vendor("https://api.x.ai/v1", "XAI_API_KEY"),
    "zai": Vendor("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "llamacpp": Vendor("http://127.0.0.1:8080/v1", "", "LLAMACPP_BASE_URL"),
    "lmstudio": Vendor("http://127.0.0.1:1234/v1", "", "LMSTUDIO_BASE_URL"),
    "ollama": Vendor("http://127.0.0.1:11434/v1", "", "OLLAMA_BASE_URL"),
    "vllm": Vendor("http://127.0.0.1:8000/v1", "", "VLLM_BASE_URL"),
}
"""By the names that models begin with."""


def vendors_table() -> str:
    """Return the vendors as a table in Markdown, for people to read."""
    rows = [
        f"| `{name}/…` | {place.base_url} | {_code(place.key)} | {_code(place.address)} |"
        for name, place in VENDORS.items()
    ]
    anthropic = (
        "| `anthropic/…` | https://api.anthropic.com | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL` |"
    )
    head = "| models | address | key | another address |"
    return "\n".join([head, "|---|---|---|---|", anthropic, *rows])


def _code(name: str) -> str:
    return f"`{name}`" if name else ""
