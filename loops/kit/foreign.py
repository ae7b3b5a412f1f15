"""Providers that others wrote, as a model that our runtimes ask; and the way back.

What a provider says and calls is recorded like any other reply. What else it shows its reader is
shown when it comes, and is no part of the record.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, cast

import httpx

from loops.blocks import Raw
from loops.closing import close
from loops.errors import AgentError, BadYield, Timeout, Unavailable
from loops.guard import describe, renaming
from loops.jsonable import cut_text
from loops.messages import Message, Messages, Usage
from loops.model import ModelPort, ModelRequest, register_adapter, resolve_model
from loops.providers.failures import failure_of_refusal, refusal_of
from loops.replayed import events_of
from loops.reply import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolStart,
)

from .asking import PortProvider
from .provider import Provider
from .turn import Turn

_OURS = frozenset({"step", "step_arg", "ping"})
"""What is made anew of the reply itself."""


def as_provider(model: "str | ModelPort | Provider", **options: Any) -> PortProvider:
    """Return the provider of a model: by its name, by its port, or by a provider of one's own.

    Raises:
        SetupError: When it is none of these.
    """
    if isinstance(model, PortProvider):
        return model
    return PortProvider(resolve_model(cast("str | ModelPort", model)), **options)


def is_provider(model: object) -> bool:
    """Say whether the object is a provider of the kit, by what it has."""
    has_name = isinstance(getattr(model, "model", None), str)
    return has_name and callable(getattr(model, "stream", None)) and not hasattr(model, "name")


def _as_port(provider: Provider) -> ModelPort:
    return provider.port if isinstance(provider, PortProvider) else ForeignPort(provider)


class ForeignPort:
    """A provider of one's own behind the port of models."""

    def __init__(self, provider: Provider) -> None:
        self.name = provider.model
        self._provider = provider
        self.aside: deque[dict[str, Any]] = deque()
        """What it has shown that is no part of the reply, for whoever reads the reply here."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply.

        Raises:
            ProviderError: When the provider fails in a way that services do.
            Incomplete: When it ends without a `Turn`.
        """
        with renaming(partial(failure_of, self.name)):
            reply = self._provider.stream(**_asked(request))
            telling = _Telling(request)
            try:
                async for shown in reply:
                    if isinstance(shown, Turn):
                        for event in telling.ended(shown):
                            yield event  # noqa: ASYNC119 - it says whose error it was
                        return
                    self._put_aside(shown)
                    for event in telling.take(shown):
                        yield event  # noqa: ASYNC119 - the same
            finally:
                await close(reply)
        raise BadYield(f"the provider {self.name!r} gave no Turn; yield one, last")

    def _put_aside(self, shown: object) -> None:
        is_told = isinstance(shown, Mapping)
        told = cast("Mapping[str, Any]", shown) if is_told else dict[str, Any]()
        if told and told.get("type") not in _TOLD | _OURS:
            self.aside.append(dict(told))


_TOLD = frozenset({"text", "thinking"})


class _Telling:
    """Makes events of what a provider shows; blocks are numbered as they come.

    A block ends when its whole reply is known, for only then its signature is.
    """

    def __init__(self, request: ModelRequest) -> None:
        self._has_begun = False
        self._names = frozenset(tool.name for tool in request.tools)
        self._blocks: list[type[TextDelta] | type[ReasoningDelta] | type[ToolStart]] = []
        self._calls: dict[str, int] = {}
        """The numbers of the calls that were announced, by their ids."""

    def take(self, shown: object) -> Iterator[ModelEvent]:
        match shown:
            case str(said) | {"type": "text", "text": str(said)}:
                yield from self._grow(TextDelta, said)
            case {"type": "thinking", "thinking": str(thought)}:
                yield from self._grow(ReasoningDelta, thought)
            case {"type": "step", "tool_name": str(name), "id": str(call_id)}:
                yield from self._announce(call_id, name)
            case None | {"type": str()}:
                return
            case _:
                raise BadYield(
                    f"a provider yields strings, dicts with a 'type', and one Turn; it yielded "
                    f"{cut_text(repr(shown), 200)}"
                )

    def _grow(
        self, kind: type[TextDelta] | type[ReasoningDelta], text: str
    ) -> Iterator[ModelEvent]:
        yield from self._begin()
        if not self._blocks or self._blocks[-1] is not kind:
            self._blocks.append(kind)
            block = len(self._blocks) - 1
            yield TextStart(block) if kind is TextDelta else ReasoningStart(block)
        yield kind(len(self._blocks) - 1, text)

    def _announce(self, call_id: str, name: str) -> Iterator[ModelEvent]:
        # What comes after it is another block, and keeps its place behind the call.
        if call_id not in self._calls and name in self._names:
            yield from self._begin()
            self._calls[call_id] = len(self._blocks)
            self._blocks.append(ToolStart)
            yield ToolStart(self._calls[call_id], call_id, name)

    def _begin(self) -> Iterator[ModelEvent]:
        if not self._has_begun:
            self._has_begun = True
            yield StreamStart()

    def ended(self, turn: Turn) -> Iterator[ModelEvent]:
        """Yield what the whole reply holds and was not told yet, and its end."""
        yield from self._begin()
        shown = {
            "text": [at for at, kind in enumerate(self._blocks) if kind is TextDelta],
            "thinking": [at for at, kind in enumerate(self._blocks) if kind is ReasoningDelta],
        }
        was_shown = {kind for kind, places in shown.items() if places}
        number = len(self._blocks)
        for block in turn.content:
            kind = str(block.get("type"))
            if block.get("id") in self._calls:
                yield from _whole(block, self._calls[block["id"]], is_announced=True)
            elif kind not in was_shown:
                yield from _whole(block, number)
                number += 1
            elif shown[kind]:
                yield _end(block, shown[kind].pop(0))
        for at in shown["text"]:
            yield TextEnd(at)
        for at in shown["thinking"]:
            yield ReasoningEnd(at)
        yield StreamEnd(stop_reason=turn.stop_reason, usage=_usage(turn))


def _end(block: Raw, number: int) -> ModelEvent:
    if block["type"] == "thinking":
        return ReasoningEnd(number, signature=block.get("signature"))
    return TextEnd(number, citations=block.get("citations"))


def _whole(block: Raw, number: int, *, is_announced: bool = False) -> Iterator[ModelEvent]:
    message = Message.from_raw({"role": "assistant", "content": [block]})
    for event in events_of(message):
        is_known = isinstance(event, ToolStart) and is_announced
        if not is_known and not isinstance(event, StreamStart | StreamEnd):
            # The event is this function's own.
            object.__setattr__(event, "block", number)
            yield event


def _usage(turn: Turn) -> Usage:
    return Usage(
        input_tokens=turn.input,
        output_tokens=turn.output,
        cache_read_tokens=turn.cached,
        cache_write_tokens=turn.cache_create,
    )


def _asked(request: ModelRequest) -> dict[str, Any]:
    """Return what a provider is asked, by the names of its protocol."""
    asked: dict[str, Any] = {
        "messages": Messages(request.messages).raw,
        "system": request.system,
        "tools": [
            {
                "type": "custom",
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.schema),
            }
            for tool in request.tools
        ],
        "max_tokens": request.max_tokens,
    }
    asked["tools"] += request.params.get("tools", [])
    return asked | {name: request.params[name] for name in _PASSED if name in request.params}


_PASSED = ("thinking", "mcp_servers", "extra_body")
"""What a provider is told only where somebody has said it: the protocol need not have it."""


def failure_of(model: str, error: Exception) -> Exception:
    """Return the error that a provider's error is for a run, as far as it can be told.

    Official clients carry a status, and the headers of the answer; others say it in words.
    """
    status = _status(error)
    match error:
        case AgentError():
            return error
        case TimeoutError() | httpx.TimeoutException():
            return Timeout(f"the model {model!r} did not answer in time: {describe(error)}")
        case ConnectionError() | httpx.TransportError():
            return Unavailable(f"the connection to {model!r} broke: {describe(error)}")
        case _ if status is None and type(error).__name__ in _BROKEN:
            return Unavailable(f"the connection to {model!r} broke: {describe(error)}")
        case _ if status is not None or _speaks_of_service(str(error)):
            refusal = refusal_of(
                str(error).encode("utf-8", "replace"), status=status, headers=_headers(error)
            )
            return failure_of_refusal(model, refusal)
        case _:
            return error


_BROKEN = frozenset({"APIConnectionError", "APITimeoutError"})
"""How the official clients call a connection that broke."""


def _status(error: Exception) -> int | None:
    for name in ("status_code", "status"):
        status: object = getattr(error, name, None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return _STATUS_SAID.get(next((each for each in _STATUS_SAID if each in str(error).lower()), ""))


_STATUS_SAID = {"overloaded": 529, "rate limit": 429, "too many requests": 429}
"""What some say in words only."""


def _speaks_of_service(text: str) -> bool:
    refusal = refusal_of(text.encode("utf-8", "replace"))
    return bool(getattr(failure_of_refusal("", refusal), "code", "") == "context_too_long")


def _headers(error: Exception) -> Mapping[str, str]:
    """Return the headers of the answer: the official clients keep them with the response."""
    response: object = getattr(error, "response", None)
    told: object = getattr(response, "headers", None) or getattr(error, "headers", None)
    is_told = isinstance(told, Mapping)
    headers = cast("Mapping[object, object]", told) if is_told else dict[object, object]()
    return {str(name).lower(): str(value) for name, value in headers.items()}


register_adapter(is_provider, _as_port)
