"""One reply of the model, as it grows."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

from .closing import OpenEvents, close
from .context import Context
from .events import ModelEvent, ToolEnd
from .fold import Fold
from .guard import Raised, Seat
from .messages import Message, MessageLike, Messages, ToolCall, Usage, as_message
from .model import ModelPort, bind
from .naming import refuse_unknown
from .output import read_output
from .replayed import events_of
from .runtime import OpenTurn
from .tools import Tool


class Stream(OpenEvents[ModelEvent]):
    """The events of one reply; nothing is asked before the first of them is.

    Used as `async with`. Leaving the block early makes what was seen of the reply the turn; so
    does a reader in another task, which is sent away.
    """

    def __init__(
        self, context: Context, *, output_type: Any = None, params: Mapping[str, Any] | None = None
    ) -> None:
        self._context = context
        self._output_type = context.output_type if output_type is None else output_type
        self._params = params
        self._fold = Fold()
        self._calls: list[ToolCall] = []
        self._turn: OpenTurn | None = None
        self._replayed: Message | None = None
        self._events: AsyncIterator[ModelEvent] | None = None
        self._seat = Seat()
        self._closing = asyncio.Lock()
        self._is_over = False

    async def __anext__(self) -> ModelEvent:
        """Return the next event, which carries the message up to it."""
        if self._is_over:
            raise StopAsyncIteration
        events = self._events
        event = await self._seat.wait(self._first if events is None else events.__anext__)
        if isinstance(event, Raised):
            # The reply is at its end or has failed: there is no turn to leave any more.
            self._is_over = True
            raise event.error
        self._fold.feed(event)
        if isinstance(event, ToolEnd):
            self._calls.append(event.tool_call)
        return bind(event, self._fold.snapshot())

    async def _first(self) -> ModelEvent:
        context = self._context
        interrupted, context.interrupted = context.interrupted, None
        if interrupted is not None:
            self._replayed = interrupted.message
            self._events = interrupted.events()
            return await anext(self._events)
        await context.take_steers()
        context.turns += 1
        request = context.request()
        if self._params is not None:
            request = replace(request, params=dict(self._params))
        self._turn = await context.current_runtime().open_turn(request, context.port())
        self._events = self._turn.events()
        return await anext(self._events)

    async def aclose(self) -> None:
        """Leave the reply; no-op after its end."""
        await self._seat.clear()
        async with self._closing:
            if self._is_over:
                return
            self._is_over = True
            try:
                if self._turn is not None:
                    await self._turn.leave()
            finally:
                await close(self._events)

    @classmethod
    def replay_message(cls, message: MessageLike, *, output_type: Any = None) -> "Stream":
        """Return the stream of a reply that is complete already: all of its events, none asked.

        It is no turn of the run, so nothing is recorded or published by itself.
        """
        stream = cls(Context(), output_type=output_type)
        whole = as_message(message)
        stream._fold.id, stream._events = whole.id, _again(whole)
        return stream

    @property
    def key(self) -> str:
        """The turn's id; empty before the first event."""
        return "" if self._turn is None else self._turn.key

    @property
    def message(self) -> Message:
        """The message so far; half-written calls are no part of it."""
        return self._fold.message() if self._replayed is None else self._replayed

    @property
    def text(self) -> str:
        """The text so far."""
        return self.message.text

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls that are complete, to be resolved and scheduled."""
        return list(self._calls)

    @property
    def usage(self) -> Usage | None:
        """What the reply has cost, once it is complete."""
        return self._fold.usage

    @property
    def stop_reason(self) -> str | None:
        """Why the reply ended, once it is complete."""
        return self._fold.stop_reason

    @property
    def output(self) -> Any:
        """The text, read as the output type where there is one.

        Raises:
            ValueError: When the message calls tools, so it is not the answer, or does not fit.
        """
        if self._calls:
            raise ValueError("the message calls tools; only one that does not is an output")
        return read_output(self.text, self._output_type)


async def _again(message: Message) -> AsyncIterator[ModelEvent]:
    for event in events_of(message):
        yield event


class StreamOptions(TypedDict, total=False):
    """What else `stream` takes when it is given a model and messages."""

    tools: Sequence[Tool] | None
    system: str
    max_tokens: int | None


@overload
def stream(
    *, context: Context, output_type: Any = None, params: Mapping[str, Any] | None = None
) -> Stream: ...
@overload
def stream(
    model: str | ModelPort,
    messages: Iterable[MessageLike],
    *,
    output_type: Any = None,
    params: Mapping[str, Any] | None = None,
    **options: Unpack[StreamOptions],
) -> Stream: ...
def stream(
    model: str | ModelPort | None = None,
    messages: Iterable[MessageLike] | None = None,
    *,
    context: Context | None = None,
    output_type: Any = None,
    params: Mapping[str, Any] | None = None,
    **options: Unpack[StreamOptions],
) -> Stream:
    """Ask a model: that of the context with all that the run knows, or one of your own choice.

    Raises:
        TypeError: When both are given, or neither.
        SetupError: When an option does not exist.
    """
    if context is not None and (model is not None or messages is not None or options):
        raise TypeError("stream() takes either a model and messages or context=, not both")
    if context is not None:
        return Stream(context, output_type=output_type, params=params)
    if model is None or messages is None:
        raise TypeError("stream() needs either a model and messages or context=")
    refuse_unknown(options, StreamOptions.__annotations__, subject="stream()")
    return Stream(
        Context(
            model=model,
            messages=Messages.of(messages),
            tools=options.get("tools") or (),
            system=options.get("system", ""),
            max_tokens=options.get("max_tokens"),
            params=params or {},
            output_type=output_type,
        )
    )


async def generate(
    model: str | ModelPort, messages: Iterable[MessageLike], **options: Unpack[StreamOptions]
) -> Message:
    """Ask a model and return its whole reply.

    Raises:
        ProviderError: When the service fails, `Incomplete` when the reply does not come to its end.
    """
    async with stream(model, messages, **options) as reply:
        async for _ in reply:
            pass
    return reply.message
