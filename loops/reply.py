"""The events of a model's reply, one class a kind; `type` is the name of the kind on the wire.

A reply is made of blocks, numbered from 0: each is started, grows by deltas, is finished.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .messages import Message, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Anything that happens in a run."""

    type: ClassVar[str] = ""
    turn: int | None = None
    """The number of the turn, from 1; None for what belongs to no turn."""
    replayed: bool = field(default=False, compare=False)
    """Whether a resumed run shows the event again; never sent or stored."""
    snapshot: Callable[[], Message] | None = field(default=None, compare=False, repr=False)

    @property
    def message(self) -> Message | None:
        """The model's message up to and with this event; built when it is asked for."""
        return None if self.snapshot is None else self.snapshot()


@dataclass(frozen=True, slots=True, init=False)
class Delta(Event):
    """More text of a block: nearly all events of a run are one, so making it is kept short."""

    block: int
    text: str

    def __init__(
        self,
        block: int,
        text: str,
        *,
        turn: int | None = None,
        replayed: bool = False,
        snapshot: Callable[[], Message] | None = None,
    ) -> None:
        # A frozen class' own way to set a field takes twice as long.
        _set_block(self, block)
        _set_text(self, text)
        _set_turn(self, turn)
        _set_replayed(self, replayed)
        _set_snapshot(self, snapshot)


_set_turn, _set_replayed, _set_snapshot = (
    Event.__dict__[name].__set__ for name in ("turn", "replayed", "snapshot")
)
_set_block, _set_text = (Delta.__dict__[name].__set__ for name in ("block", "text"))


@dataclass(frozen=True, slots=True)
class StreamStart(Event):
    """A reply of the model begins."""

    type = "turn.started"
    model: str = ""


@dataclass(frozen=True, slots=True)
class StreamEnd(Event):
    """A reply of the model is complete."""

    type = "turn.finished"
    stop_reason: str | None = None
    """Anthropic's words: end_turn, tool_use, max_tokens, …; or `cut` for a broken reply."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class TextStart(Event):
    """A block of text begins."""

    type = "text.started"
    block: int


@dataclass(frozen=True, slots=True, init=False)
class TextDelta(Delta):
    """More text of a block."""

    type = "text.delta"


@dataclass(frozen=True, slots=True)
class TextEnd(Event):
    """A block of text is complete."""

    type = "text.finished"
    block: int
    citations: list[dict[str, Any]] | None = None
    """What the text rests on, word for word, where the provider says it."""
    extra: dict[str, Any] | None = None
    """What else its provider says of the block, word for word: it goes back with it."""


@dataclass(frozen=True, slots=True)
class ReasoningStart(Event):
    """The model begins to think; `redacted` is what only its provider can read."""

    type = "reasoning.started"
    block: int
    redacted: str | None = None


@dataclass(frozen=True, slots=True, init=False)
class ReasoningDelta(Delta):
    """More of what the model thinks."""

    type = "reasoning.delta"


@dataclass(frozen=True, slots=True)
class ReasoningEnd(Event):
    """The model has thought; the signature goes back to its provider with the block."""

    type = "reasoning.finished"
    block: int
    signature: str | None = None
    extra: dict[str, Any] | None = None
    """What else its provider says of the block, word for word: it goes back with it."""


@dataclass(frozen=True, slots=True)
class ToolStart(Event):
    """The model begins to write a call."""

    type = "call.started"
    block: int
    id: str
    """The provider's id."""
    name: str
    call: str = ""
    """Our own key of the call; the runtime fills it in."""


@dataclass(frozen=True, slots=True, init=False)
class ToolDelta(Delta):
    """More of the call's arguments, as a piece of JSON text."""

    type = "call.delta"


@dataclass(frozen=True, slots=True)
class ToolEnd(Event):
    """The model has written a call: it may be started now."""

    type = "call.finished"
    block: int
    id: str
    name: str
    arguments: str
    """All of the arguments, as JSON text."""
    call: str = ""
    extra: dict[str, Any] | None = None
    """What else its provider says of the block, word for word: it goes back with it."""

    @property
    def tool_call(self) -> ToolCall:
        """The call, to be resolved and scheduled."""
        turn = self.call.rpartition(".")[0]
        return ToolCall(
            id=self.id,
            key=self.call,
            name=self.name,
            arguments=self.arguments,
            turn=turn,
            block=self.block,
            number=self.turn,
        )


@dataclass(frozen=True, slots=True)
class BuiltinToolStart(Event):
    """The model begins to write a call that its provider performs itself."""

    type = "builtin.started"
    block: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, init=False)
class BuiltinToolDelta(Delta):
    """More of such a call's arguments."""

    type = "builtin.delta"


@dataclass(frozen=True, slots=True)
class BuiltinToolEnd(Event):
    """The model has written such a call."""

    type = "builtin.finished"
    block: int
    id: str
    name: str
    arguments: str
    raw: dict[str, Any] | None = None
    """The provider's block without its input, word for word."""


@dataclass(frozen=True, slots=True)
class BuiltinToolResult(Event):
    """The provider's answer to such a call; `content` is the provider's block, word for word."""

    type = "builtin.result"
    block: int
    id: str
    name: str
    content: Any


@dataclass(frozen=True, slots=True)
class File(Event):
    """A file that the model made: base64 data, or an address."""

    type = "file"
    block: int
    media_type: str
    data: str
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Frames(Event):
    """What came of a reply, word for word: the frames of a stream, or a body that came whole.

    A gateway's turns are made of these alone. Each frame is its event's name and its data; a third
    member says that the rest of the data stands in the next event's first frame.
    """

    type = "frames.received"
    frames: list[list[Any]]


ModelEvent = (
    StreamStart
    | StreamEnd
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolStart
    | ToolDelta
    | ToolEnd
    | BuiltinToolStart
    | BuiltinToolDelta
    | BuiltinToolEnd
    | BuiltinToolResult
    | File
    | Frames
)
"""What a model's port yields."""
