"""The port behind which models are asked, and the pure fold of a reply into a message."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from .closing import close
from .errors import Incomplete, SetupError
from .messages import Message
from .reply import Event, ModelEvent, StreamEnd, ToolEnd, ToolStart


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON schema of the arguments."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that decides a model's reply."""

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the provider takes, by the provider's own names."""


class ModelPort(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """The model's name, as runs and events show it."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply: `StreamStart` first, `StreamEnd` last and once.

        Blocks are numbered in the order in which they begin; `ToolEnd` carries all arguments. The
        connection is closed when the iterator is.

        Raises:
            ProviderError: When the service fails; `retryable` says whether asking again may help.
        """
        ...


async def ask(port: ModelPort, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Yield the port's reply up to its `StreamEnd`.

    Raises:
        Incomplete: When the reply ends without one.
    """
    reply = port.stream(request)
    try:
        async for event in reply:
            yield event
            if isinstance(event, StreamEnd):
                return
    finally:
        await close(reply)
    raise Incomplete(f"the reply of {port.name!r} broke off before its end; ask again")


_fields_of: dict[type[Event], tuple[str, ...]] = {}


def stamp(event: ModelEvent, *, key: str, number: int, replayed: bool = False) -> ModelEvent:
    """Return a copy of a port's event that belongs to the turn; a call gets the key of its own.

    Written out field by field, since `dataclasses.replace` costs four times as much a delta.
    """
    cls = type(event)
    names = _fields_of.get(cls)
    if names is None:
        names = _fields_of[cls] = tuple(each.name for each in fields(cls))
    copy = object.__new__(cls)
    for name in names:
        object.__setattr__(copy, name, getattr(event, name))
    object.__setattr__(copy, "turn", number)
    object.__setattr__(copy, "replayed", replayed)
    if isinstance(copy, (ToolStart, ToolEnd)):
        object.__setattr__(copy, "call", call_key(key, copy.block))
    return copy


def bind(event: ModelEvent, snapshot: Callable[[], Message]) -> ModelEvent:
    """Give a stamped event, which nobody else holds yet, the message that it is part of."""
    object.__setattr__(event, "snapshot", snapshot)
    return event


def call_key(turn: str, block: int) -> str:
    """Return our own id of the call that stands in the block of the turn."""
    return f"{turn}.{block}"


ProviderFactory = Callable[[str], ModelPort]
"""Takes the model's name without its vendor."""

_factories: dict[str, ProviderFactory] = {}


def register_provider(vendor: str, factory: ProviderFactory) -> None:
    """Let models be named `vendor/model`; a later registration of a vendor replaces it."""
    if not vendor or "/" in vendor:
        raise SetupError(f"a vendor's name is a word without a slash, not {vendor!r}")
    _factories[vendor] = factory


def resolve_model(model: str | ModelPort) -> ModelPort:
    """Return the port of a model that is named `vendor/model`; a port stands for itself.

    Raises:
        SetupError: When the vendor is not known; the text lists those that are.
    """
    if not isinstance(model, str):
        return model
    vendor, slash, name = model.partition("/")
    if not (slash and vendor and name):
        raise SetupError(f"a model is named 'vendor/model', for instance 'acme/x'; not {model!r}")
    factory = _factories.get(vendor)
    if factory is None:
        known = ", ".join(map(repr, sorted(_factories))) or "none"
        raise SetupError(
            f"no provider is registered for the vendor {vendor!r} of {model!r}; known: {known}. "
            f"register_provider({vendor!r}, factory) adds one"
        )
    return factory(name)
