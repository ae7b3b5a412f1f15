"""The services that speak Chat Completions: where each is, whose key it wants, how it differs.

A vendor that is missing here can be reached all the same: as `openai/…` with an address of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .thinking import (
    Thinking,
    effort,
    kimi_effort,
    routed,
    switch,
    switch_and_budget,
    switch_and_effort,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a service differs from others of its protocol."""

    system_role: str = "system"
    limit_name: str = "max_tokens"
    reasoning_name: str | None = None
    """Under which name the service wants to be told again what its model thought."""
    takes_addresses: bool = False
    """Whether the service fetches a document whose address it is told."""
    thinking: Thinking | None = None
    """How the service is told how much its model may think; None when we do not know."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One service."""

    base_url: str = ""
    """Its address, with the version in it; empty where each customer has another one."""
    key: str = ""
    """The variable in which its key is looked for; empty for a service that needs none."""
    address: str = ""
    """The variable that may name another address."""
    dialect: Dialect = field(default_factory=Dialect)


ANTHROPIC = Vendor("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
"""The one that speaks Messages."""

_EFFORT = Dialect(thinking=effort)
_OPENAI = Dialect("developer", "max_completion_tokens", thinking=effort)
_KIMI = Dialect(reasoning_name="reasoning_content", thinking=kimi_effort)
_ZAI = Dialect(reasoning_name="reasoning_content", thinking=switch)
_DEEPSEEK = Dialect(reasoning_name="reasoning_content", thinking=switch_and_effort)
_OPENROUTER = Dialect(reasoning_name="reasoning", takes_addresses=True, thinking=routed)
_GROQ = Dialect(limit_name="max_completion_tokens", thinking=effort)

_DASHSCOPE = Vendor(
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "DASHSCOPE_API_KEY",
    dialect=Dialect(thinking=switch_and_budget),
)
_GEMINI = Vendor(
    "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", dialect=_EFFORT
)
_MISTRAL = Vendor("https://api.mistral.ai/v1", "MISTRAL_API_KEY", dialect=_EFFORT)
_MOONSHOT = Vendor("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", dialect=_KIMI)
_XAI = Vendor("https://api.x.ai/v1", "XAI_API_KEY", dialect=_EFFORT)
_ZHIPU = Vendor("https://open.bigmodel.cn/api/paas/v4", "ZHIPUAI_API_KEY", dialect=_ZAI)

VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL", dialect=_OPENAI
    ),
    "azure": Vendor("", "AZURE_API_KEY", "AZURE_BASE_URL", dialect=_OPENAI),
    "cerebras": Vendor("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    **dict.fromkeys(("dashscope", "qwen", "alibaba"), _DASHSCOPE),
    "deepseek": Vendor("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", dialect=_DEEPSEEK),
    "fireworks": Vendor("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    **dict.fromkeys(("gemini", "google"), _GEMINI),
    "groq": Vendor("https://api.groq.com/openai/v1", "GROQ_API_KEY", dialect=_GROQ),
    **dict.fromkeys(("mistral", "mistralai"), _MISTRAL),
    **dict.fromkeys(("moonshot", "moonshotai", "kimi"), _MOONSHOT),
    "openrouter": Vendor("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", dialect=_OPENROUTER),
    "perplexity": Vendor("https://api.perplexity.ai", "PERPLEXITY_API_KEY", dialect=_EFFORT),
    "together": Vendor("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    **dict.fromkeys(("xai", "grok"), _XAI),
    "zai": Vendor("https://api.z.ai/api/paas/v4", "ZAI_API_KEY", dialect=_ZAI),
    **dict.fromkeys(("zhipu", "zhipuai", "glm"), _ZHIPU),
    "llamacpp": Vendor("http://127.0.0.1:8080/v1", "", "LLAMACPP_BASE_URL"),
    "lmstudio": Vendor("http://127.0.0.1:1234/v1", "", "LMSTUDIO_BASE_URL"),
    "ollama": Vendor("http://127.0.0.1:11434/v1", "", "OLLAMA_BASE_URL"),
    "vllm": Vendor("http://127.0.0.1:8000/v1", "", "VLLM_BASE_URL"),
}
"""By the names that models begin with; some have several."""


def vendors_table() -> str:
    """Return the vendors as a table in Markdown, for people to read."""
    named: dict[str, list[str]] = {}
    for name, place in {"anthropic": ANTHROPIC, **VENDORS}.items():
        where = f"{place.base_url or 'your own'} | {_code(place.key)} | {_code(place.address)}"
        named.setdefault(where, []).append(f"`{name}/…`")
    rows = [f"| {', '.join(names)} | {where} |" for where, names in named.items()]
    head = "| models | address | key | another address |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def _code(name: str) -> str:
    return f"`{name}`" if name else ""
