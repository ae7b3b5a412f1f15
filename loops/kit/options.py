"""What the default loop is told, checked once; whatever else it is told is passed over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Protocol

from loops.blocks import Raw
from loops.context import Context
from loops.errors import SetupError
from loops.providers.deployment import Price
from loops.tool_context import ToolContext
from loops.tools import Tool

from .asking import PortProvider
from .beating import EVERY
from .handlers import Handler
from .limits import Limits
from .making import make_provider, priced
from .toolbox import SearchMode, build_tools

WINDOW = 1_000_000
"""How many tokens a model sees where nobody says."""

MAX_TOKENS = 8_192
"""How long a reply may be where nobody says."""


class ToolSource(Protocol):
    """A server that offers tools."""

    @property
    def name(self) -> str:
        """What stands before the names of its tools."""
        ...

    async def discover(self) -> list[Raw]:
        """Return its tools, as models are told them."""
        ...

    def tool(self) -> Tool:
        """Return the one tool through which all of its tools are called."""
        ...


@dataclass(frozen=True, kw_only=True)
class Options:
    """How one run of the default loop goes."""

    model: Any = None
    provider: Any = None
    """Who is asked; goes before `model`."""
    system: str = ""
    tools: Sequence[Raw | Tool] | None = None
    allowed_tools: Collection[str] = ()
    max_tokens: int | None = None
    context_window: int | None = None
    price: Mapping[str, float] | Price | None = None
    bash_timeout: float = 600.0
    client: Any = None
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    handlers: Mapping[str, Handler] | None = None
    mcp: Sequence[ToolSource] = ()
    mcp_servers: Sequence[Raw] | None = None
    """Servers that the model's own service asks."""
    thinking: Any = "adaptive"
    vision: bool = True
    web_search: SearchMode = "brave"
    extra_body: Mapping[str, Any] | None = None
    approvals: Collection[str] = ()
    declined: Collection[str] = ()
    auto: bool = True
    titles: bool = False
    limits: Limits = field(default_factory=Limits)
    heartbeat: timedelta = EVERY

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Options":
        """Return the options among what was given; None stands for what is usual."""
        known = {each.name for each in fields(cls)}
        told = {name: value for name, value in given.items() if name in known}
        unset = {name for name in told if told[name] is None and name in _NEVER_NONE}
        return cls(**{name: value for name, value in told.items() if name not in unset})

    def asked(self) -> PortProvider:
        """Return whom the loop asks.

        Raises:
            SetupError: When there is nobody.
        """
        model = self.provider if self.provider is not None else self.model
        if model is None:
            raise SetupError("the loop has no model; give it a model= or a provider=")
        connection = {"base_url": self.base_url, "api_key": self.api_key, "headers": self.headers}
        is_named = isinstance(model, str)
        provider = make_provider(
            model,
            client=self.client if is_named else None,
            vision=self.vision,
            **(connection if is_named else {}),
        )
        return priced(provider, self.price).asked_once()

    def offered(self, found: Sequence[Raw] = ()) -> list[Raw]:
        """Return the tools that the model is told, with those that servers were found to have."""
        name = self.model if isinstance(self.model, str) else ""
        vendor = name.partition("/")[0] if "/" in name else ""
        allowed, custom = self.allowed_tools, [*(self.tools or ()), *found]
        return build_tools(allowed, custom, vendor=vendor, web_search=self.web_search)

    def acting(self, context: Context) -> ToolContext:
        """Return for whom tools act."""
        return context.tool_context()

    @property
    def window(self) -> int:
        """How many tokens the model sees."""
        return self.context_window or WINDOW

    @property
    def output(self) -> int:
        """How long a reply may be."""
        return self.max_tokens or MAX_TOKENS


_NEVER_NONE = frozenset(
    {"bash_timeout", "limits", "heartbeat", "mcp", "allowed_tools", "system", "web_search"}
)


def trigger(window: int, max_tokens: int) -> int:
    """Return from how many tokens on earlier messages are put together.

    A reply and some air have to fit behind them; in a small window less of both.
    """
    room = min(max_tokens, window // 4) + min(30_000, window // 10)
    return max(min(window * 7 // 10, window - room), window // 4, 1)
