"""The port behind which models are asked, and the names by which they are found."""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from .closing import close
from .errors import BadYield, Incomplete, SetupError, UnknownModel
from .guard import renaming
from .jsonable import cut_text
from .messages import Message
from .port_failures import failure_of
from .reply import Delta, ModelEvent, StreamEnd, ToolEnd, ToolStart


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
    """What else the provider takes, by the provider's own names.

    The models that ship understand besides: `thinking` (None, "adaptive", "low", "medium", "high",
    a number of tokens, or an object in the vendor's own words), as far as their vendor can be told;
    `tools` of the vendor, which stand beside ours; and `extra_body`, whose fields go before all
    others.
    """
    waits: bool = True
    """Whether a request that its provider turns away for now is made again, as long as the runtime
    has patience; else the loop is told at once."""
    tries: int | None = None
    """How often a model that fails before it says anything is asked, before the loop is told; None
    for as often as the runtime asks by itself. A loop that asks again by itself says 1."""


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


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider allows in a minute; None where nobody said."""

    requests: int | None = None
    tokens: int | None = None


@runtime_checkable
class MeteredPort(ModelPort, Protocol):
    """A model whose provider counts what is asked of it."""

    @property
    def account(self) -> str:
        """Whoever shares it shares its limits; it tells nothing of the key."""
        ...

    @property
    def limits(self) -> Limits:
        """How much may be asked, as far as it was configured."""
        ...


async def ask(port: ModelPort, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Yield the port's reply up to its `StreamEnd`.

    This is the one place where it matters what a port of one's own raises and yields.

    Raises:
        Incomplete: When the reply ends without one.
        ProviderError: When the service fails, also as httpx says it.
        LoopFailed: When the port raises anything else, or yields what is no event of a reply.
        SetupError: When the port gives no reply that could be read.
    """
    with renaming(partial(failure_of, port.name)):
        reply = _reply_of(port, request)
        try:
            async for event in reply:
                if not isinstance(event, _MODEL_EVENTS):
                    raise _bad_yield(port.name, event)
                yield event  # noqa: ASYNC119 - nothing is held here; it says whose error it was
                if isinstance(event, StreamEnd):
                    return
        finally:
            await close(reply)
    raise Incomplete(f"the reply of {port.name!r} broke off before its end; ask again")


# Most events are deltas, and those that stand first are found first.
_MODEL_EVENTS = tuple(sorted(ModelEvent.__args__, key=lambda each: not issubclass(each, Delta)))


def _bad_yield(name: str, event: object) -> BadYield:
    return BadYield(
        f"the model port {name!r} yielded {cut_text(repr(event), 200)}, which is no event of a "
        "reply; yield StreamStart, TextDelta and their like from loops.events"
    )


def _reply_of(port: ModelPort, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    reply = cast("object", port.stream(request))
    if isinstance(reply, AsyncIterable):
        return cast("AsyncIterator[ModelEvent]", reply)
    if inspect.iscoroutine(reply):
        reply.close()
    raise SetupError(
        f"the stream of the model port {port.name!r} gives a {type(reply).__name__} and no events; "
        "write async def with yield"
    )


def stamp(event: ModelEvent, *, key: str, number: int, replayed: bool = False) -> ModelEvent:
    """Return a copy of a port's event that belongs to the turn; a call gets the key of its own."""
    if isinstance(event, Delta):
        # By `replace` a delta would cost four times as much.
        return type(event)(event.block, event.text, turn=number, replayed=replayed)
    if isinstance(event, (ToolStart, ToolEnd)):
        call = call_key(key, event.block)
        return replace(event, call=call, turn=number, replayed=replayed)
    return replace(event, turn=number, replayed=replayed)


def bind(event: ModelEvent, snapshot: Callable[[], Message]) -> ModelEvent:
    """Give a stamped event, which nobody else holds yet, the message that it is part of."""
    object.__setattr__(event, "snapshot", snapshot)
    return event


def call_key(turn: str, block: int) -> str:
    """Return our own id of the call that stands in the block of the turn."""
    return f"{turn}.{block}"


ProviderFactory = Callable[..., ModelPort]
"""Takes the model's name without its vendor; by name, if it can, also `base_url` and `api_key`."""

_factories: dict[str, ProviderFactory] = {}
_named: dict[str, Callable[[], ModelPort]] = {}


def provider_of(vendor: str) -> ProviderFactory | None:
    """Return the factory of a vendor's models, if one is registered."""
    return _factories.get(vendor)


@contextmanager
def named_models(models: Mapping[str, Callable[[], ModelPort]]) -> Generator[None]:
    """Let models be called by names of one's own, before `vendor/model`, while the block runs."""
    before = dict(_named)
    _named.update(models)
    try:
        yield
    finally:
        _named.clear()
        _named.update(before)


def configured_models() -> list[str]:
    """Return the names of one's own by which models can be called now, sorted."""
    return sorted(_named)


def configured_model(name: str) -> ModelPort:
    """Return the port of a model that was configured; no other can be named here.

    Raises:
        UnknownModel: When there is none of this name.
        SetupError: When it cannot be asked.
    """
    named = _named.get(name)
    if named is None:
        raise UnknownModel(name, _named)
    return _checked(named())


def register_provider(vendor: str, factory: ProviderFactory) -> None:
    """Let models be named `vendor/model`; a later registration of a vendor replaces it."""
    if not vendor or "/" in vendor:
        raise SetupError(f"a vendor's name is a word without a slash, not {vendor!r}")
    _factories[vendor] = factory


_adapters: dict[Callable[[object], bool], Callable[[Any], ModelPort]] = {}


def register_adapter(fits: Callable[[object], bool], adapt: Callable[[Any], ModelPort]) -> None:
    """Let models be given in another form than a port: what fits becomes one."""
    _adapters[fits] = adapt


def resolve_model(model: str | ModelPort) -> ModelPort:
    """Return the port of a model: by a name of one's own, or by `vendor/model`.

    A port stands for itself, and so does what an adapter is registered for.

    Raises:
        SetupError: When the name is not known; the text lists those that are. Also when a port is
            none.
    """
    if not isinstance(model, str):
        return _checked(model)
    named = _named.get(model)
    return make_port(model) if named is None else _checked(named())


def make_port(model: str, **connection: Any) -> ModelPort:
    """Return the port of `vendor/model`, with an address and a key of its own where given.

    Raises:
        SetupError: When the vendor is not known, or cannot be given what was.
    """
    vendor, slash, name = model.partition("/")
    if not (slash and vendor and name):
        own = f"; configured are: {', '.join(map(repr, sorted(_named)))}" if _named else ""
        raise SetupError(
            f"a model is named 'vendor/model', for instance 'acme/x'; not {model!r}{own}"
        )
    factory = _factories.get(vendor)
    if factory is None:
        known = ", ".join(map(repr, sorted(_factories))) or "none"
        raise SetupError(
            f"no provider is registered for the vendor {vendor!r} of {model!r}; known: {known}. "
            f"register_provider({vendor!r}, factory) adds one"
        )
    try:
        # What takes a name alone is not looked at each time that its model is asked.
        if connection:
            inspect.signature(factory).bind(name, **connection)
    except TypeError as error:
        raise SetupError(
            f"the provider of {vendor!r} cannot be made for {model!r}: {error}"
        ) from error
    return _checked(factory(name, **connection))


def _checked(port: ModelPort) -> ModelPort:
    for fits, adapt in _adapters.items():
        if fits(port):
            return adapt(port)
    if isinstance(port, type):
        raise SetupError(f"the model port {port.__name__!r} is a class; give an instance of it")
    name: object = getattr(port, "name", None)
    if not isinstance(name, str):
        raise SetupError(
            f"a model is named 'vendor/model', or is a port with a name and a stream; not {port!r}"
        )
    if not callable(getattr(port, "stream", None)):
        raise SetupError(
            f"the model port {name!r} has no stream; write async def stream(self, request) "
            "with yield"
        )
    if isinstance(port, MeteredPort):
        _check_meter(port)
    return port


def _check_meter(port: MeteredPort) -> None:
    account, limits = cast("object", port.account), cast("object", port.limits)
    if not (isinstance(account, str) and account.isprintable() and account):
        raise SetupError(f"the account of the model port {port.name!r} is a name, not {account!r}")
    numbers = (limits.requests, limits.tokens) if isinstance(limits, Limits) else (0,)
    if not all(each is None or (type(each) is int and each > 0) for each in numbers):
        raise SetupError(
            f"the limits of the model port {port.name!r} are Limits of whole numbers above zero, "
            f"or of None; not {limits!r}"
        )
