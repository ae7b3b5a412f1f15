"""What the kit asks models through: one streaming interface over all of them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from loops.blocks import Raw


class Provider(Protocol):
    """One model. Messages are plain dicts in Anthropic's shape, the richest of all."""

    model: str

    def stream(
        self,
        *,
        messages: Sequence[Raw],
        system: str,
        tools: Sequence[Raw],
        max_tokens: int,
        mcp_servers: Sequence[Mapping[str, Any]] | None = None,
        thinking: Any = None,
    ) -> AsyncIterator[Any]:
        """Yield UI events (dicts), bare strings for text, and then exactly one `Turn`."""
        ...

    async def complete(self, *, messages: Sequence[Raw], system: str, max_tokens: int) -> str:
        """Return the text of a whole reply."""
        ...
