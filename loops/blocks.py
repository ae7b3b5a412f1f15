"""The blocks that a message is made of: Anthropic's, the richest of all.

What a provider sends is kept: unknown blocks as they are, unknown fields beside ours.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeGuard, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Raw = dict[str, Any]
"""A message or a block as a plain dict in Anthropic's shape."""


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    def raw(self) -> Raw:
        """Return the block as a plain dict in Anthropic's shape."""
        return self.model_dump()


class TextBlock(_Block):
    """Text for people."""

    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(_Block):
    """What the model thought; the signature lets its provider trust it when it comes back."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(_Block):
    """What the model thought, readable by its provider only."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str


class ToolUseBlock(_Block):
    """The model's wish that a tool be called."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any] = Field(default_factory=dict)
    call: str = ""
    """Our own key of the call, which is unique where the provider's id need not be."""

    def raw(self) -> Raw:
        """Return the block as a plain dict; our own key only where there is one."""
        return self.model_dump(exclude=None if self.call else {"call"})


class ToolResultBlock(_Block):
    """The answer to a call."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str | list[Raw] = ""
    is_error: bool = False
    deferred: str = ""
    """The label of the hook that the call waits for, where another run is to go on with it."""
    result: Any = None
    """What the tool gave, where the model is told something else: that is the content then."""

    def raw(self) -> Raw:
        """Return the block as a plain dict; what is not needed only where it says something."""
        silent = {"is_error"} if not self.is_error else set[str]()
        if not self.deferred:
            silent.add("deferred")
        if self.result is None:
            silent.add("result")
        return self.model_dump(exclude=silent)


class ImageBlock(_Block):
    """A picture: inline or by its address."""

    type: Literal["image"] = "image"
    source: Raw


class DocumentBlock(_Block):
    """A document: inline or by its address."""

    type: Literal["document"] = "document"
    source: Raw


class OpaqueBlock(_Block):
    """Any other block, kept word for word."""

    type: str = ""

    def raw(self) -> Raw:
        """Return the block exactly as it came."""
        return self.model_dump(exclude_unset=True)


_KNOWN = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"}
)


def _kind(value: object) -> str:
    kind: object = None
    if isinstance(value, Mapping):
        kind = cast("Mapping[str, object]", value).get("type")
    elif isinstance(value, _Block) and not isinstance(value, OpaqueBlock):
        kind = getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in _KNOWN else "opaque"


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[OpaqueBlock, Tag("opaque")],
    Discriminator(_kind),
]
"""A part of a message."""


_CONTENT_TYPES = {"text", "image", "document", "search_result"}


def are_blocks(content: object) -> TypeGuard[list[Raw]]:
    """Say whether a result's content is blocks, and no data."""
    if not isinstance(content, list) or not content:
        return False
    return all(map(is_block, cast("list[object]", content)))


def is_block(value: object) -> bool:
    """Say whether a value is a block that a result may hold, and no data that looks like one."""
    if not isinstance(value, dict):
        return False
    block = cast("Raw", value)
    if block.get("type") == "text":
        return isinstance(block.get("text"), str)
    kind: object = block.get("type")
    is_known = isinstance(kind, str) and kind in _CONTENT_TYPES
    return is_known and isinstance(block.get("source"), dict | str)


def has_pictures(content: object) -> bool:
    """Say whether the content of a result is blocks, with pictures or documents among them."""
    return are_blocks(content) and any(each["type"] in {"image", "document"} for each in content)
