"""Messages, the calls and results in them, and what a reply has cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from .blocks import Block, Raw, TextBlock, ToolResultBlock, ToolUseBlock, are_blocks
from .errors import InvalidArguments
from .jsonable import cut_text, jsonable, parse_object

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's wish that a tool be called, complete: its block is closed."""

    id: str
    """The provider's id; providers repeat and omit ids, so nothing of ours hangs on it."""
    key: str
    """Our own id: the turn's key and the block's number."""
    name: str
    arguments: str
    """The arguments as the model wrote them: JSON text, perhaps broken."""
    turn: str = ""
    """The key of its turn."""
    block: int = 0
    number: int | None = None
    """The number of its turn, as events carry it."""
    granted: bool = False
    """Whether a person has granted it, with these arguments."""

    def parsed(self) -> dict[str, Any]:
        """Return the arguments as an object.

        Raises:
            InvalidArguments: When they are no JSON object; the text names the problem.
        """
        return parse_arguments(self.name, self.arguments)

    def encode(self) -> bytes:
        """Return the call as JSON."""
        return orjson.dumps(jsonable(self))

    @classmethod
    def decode(cls, encoded: bytes | str) -> "ToolCall":
        """Return the call of its JSON; fields that a newer writer added are ignored."""
        told: Mapping[str, Any] = orjson.loads(encoded)
        return cls(**{field.name: told[field.name] for field in fields(cls) if field.name in told})


def parse_arguments(name: str, arguments: str) -> dict[str, Any]:
    """Return the arguments of a tool's call as an object.

    Raises:
        InvalidArguments: When they are no JSON object; the text names the problem.
    """
    try:
        return parse_object(arguments)
    except ValueError as error:
        shown = cut_text(arguments, 200)
        raise InvalidArguments(
            f"the arguments of {name!r} are not valid: {error}; send one JSON object, not {shown!r}"
        ) from error


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to a call."""

    call: str
    """The key of the call."""
    id: str
    """The provider's id of the call."""
    name: str
    content: Any
    """What the tool gave, as JSON can carry it."""
    is_error: bool = False
    deferred: str = ""
    """The label of the hook that the call waits for, where another run is to go on with it."""
    told: Any = None
    """What the model is told instead of the content, where that is something else."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """What the tool raised, if it raised it in this process; never sent or stored."""

    @property
    def text(self) -> str:
        """What the model reads: text as it is, anything else as JSON."""
        told = self.content if self.told is None else self.told
        return told if isinstance(told, str) else orjson.dumps(told).decode()

    def encode(self) -> bytes:
        """Return the result as JSON."""
        stored = {
            "call": self.call,
            "id": self.id,
            "name": self.name,
            "content": self.content,
            "is_error": self.is_error,
            "deferred": self.deferred,
            "told": self.told,
        }
        return orjson.dumps(stored)

    @classmethod
    def decode(cls, encoded: bytes | str) -> "ToolResult":
        """Return the result of its JSON; fields that a newer writer added are ignored."""
        fields: Mapping[str, Any] = orjson.loads(encoded)
        return cls(
            call=fields["call"],
            id=fields["id"],
            name=fields["name"],
            content=fields["content"],
            is_error=fields.get("is_error", False),
            deferred=fields.get("deferred", ""),
            told=fields.get("told"),
        )


class Usage(BaseModel):
    """What a reply has cost; None where the provider did not say."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: float | None = None
    """The price, in the currency of the configured price list."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
            cost=_sum(self.cost, other.cost),
        )


_Number = TypeVar("_Number", int, float)


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


class Message(BaseModel):
    """One entry of a history.

    Results of tools stand in a message of role `tool`; its plain form has the role `user`, as
    providers want it. A message is also read like its plain dict: `message["content"]`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: Role
    content: list[Block]
    id: str = ""
    usage: Usage | None = None
    meta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What is kept beside what was said, and that no model is told: JSON."""

    @field_validator("content", mode="before")
    @classmethod
    def _text_is_one_block(cls, content: object) -> object:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any]) -> "Message":
        """Return the message of a plain dict; one of results only gets the role `tool`."""
        message = cls.model_validate(dict(raw))
        if message.role == "user" and _only_results(message.content):
            return message.model_copy(update={"role": "tool"})
        return message

    def raw(self) -> Raw:
        """Return the plain dict; plain text of a user or system is a string, not a list."""
        role = "user" if self.role == "tool" else self.role
        return {"role": role, "content": self._raw_content()}

    def stored(self) -> Raw:
        """Return the plain dict as a session keeps it, with what stands beside what was said."""
        return {**self.raw(), "meta": self.meta} if self.meta else self.raw()

    def _raw_content(self) -> str | list[Raw]:
        blocks = [block.raw() for block in self.content]
        if self.role in {"user", "system"} and len(blocks) == 1 and set(blocks[0]) == _PLAIN:
            return cast("str", blocks[0]["text"])
        return blocks

    @property
    def text(self) -> str:
        """All text of the message, in one string."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> list[ToolUseBlock]:
        """The calls in the order of the message."""
        return [block for block in self.content if isinstance(block, ToolUseBlock)]

    @property
    def tool_results(self) -> list[ToolResultBlock]:
        """The results in the order of the message."""
        return [block for block in self.content if isinstance(block, ToolResultBlock)]

    def __getitem__(self, name: str) -> Any:
        return self.raw()[name]

    def __contains__(self, name: object) -> bool:
        return name in {"role", "content"}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field of the plain dict, or the default where it has none."""
        return self.raw().get(name, default)


_PLAIN = {"type", "text"}

MessageLike = Message | Mapping[str, Any] | str
"""A message, its plain dict, or the text of a user."""


def as_message(value: MessageLike) -> Message:
    """Return the value as a message; a bare string is what a user says."""
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(role="user", content=[TextBlock(text=value)])
    return Message.from_raw(value)


class Messages(list[Message]):
    """A history, oldest first."""

    @classmethod
    def of(cls, values: "MessageLike | Iterable[MessageLike]") -> "Messages":
        """Return a new history of one message, or of several in their order."""
        if isinstance(values, (str, Message, Mapping)):
            return cls([as_message(cast("MessageLike", values))])
        return cls(as_message(value) for value in values)

    @property
    def raw(self) -> list[Raw]:
        """The history as plain dicts in Anthropic's shape, the newest message last."""
        return [message.raw() for message in self]


def result_block(result: ToolResult) -> ToolResultBlock:
    """Return the block that tells a provider the result."""
    return ToolResultBlock(
        tool_use_id=result.id or result.call,
        content=_content(result),
        is_error=result.is_error,
        deferred=result.deferred,
        result=None if result.told is None else result.content,
    )


def tool_message(results: Sequence[ToolResult]) -> Message | None:
    """Return the one message of these results, in their order; None where there are none."""
    if not results:
        return None
    return Message(role="tool", content=[result_block(result) for result in results])


def _content(result: ToolResult) -> str | list[Raw]:
    content = result.content if result.told is None else result.told
    return content if are_blocks(content) else result.text


def _only_results(content: Sequence[object]) -> bool:
    return bool(content) and all(isinstance(block, ToolResultBlock) for block in content)
