"""What a provider of the kit ends a reply with."""

from dataclasses import dataclass, field
from typing import Any

from loops.blocks import Raw


@dataclass(frozen=True)
class Turn:
    """One whole reply of a model; the last thing that a provider's stream yields, once."""

    content: list[Raw]
    """The blocks in Anthropic's shape, those of calls among them."""
    stop_reason: str
    """Anthropic's words: end_turn, tool_use, max_tokens, …; or `cut` for a broken reply."""
    input: int = 0
    """Tokens that were read, without those that came from the provider's cache."""
    output: int = 0
    cached: int = 0
    """Tokens that came from the provider's cache."""
    cache_create: int = 0
    """Tokens that were written to the provider's cache."""
    host: str | None = None
    """Who answered in the end, where a router says it."""
    replayed: bool = field(default=False, compare=False, repr=False)
    """Whether a resumed run was shown it again."""

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The blocks that call tools of ours, in order."""
        return [block for block in self.content if block.get("type") == "tool_use"]

    @property
    def text(self) -> str:
        """All text of the reply, in one string."""
        return "".join(block["text"] for block in self.content if block.get("type") == "text")

    @property
    def read(self) -> int:
        """How many tokens the request had, however they were read."""
        return self.input + self.cached + self.cache_create
