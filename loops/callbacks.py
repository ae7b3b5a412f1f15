"""Callbacks that look at a model's reply, answer its calls, and have the model asked again.

`callbacks` is the list of those that the gateway asks, read when the API and workers start;
`amessages` and `acompletion` do the same in this process.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import orjson

from .agent_stream import AgentStream
from .agentic import Gateway
from .blocks import Raw
from .closing import closing
from .context import Context
from .errors import SetupError
from .events import AgentEvent
from .gateway.answer import Answer
from .gateway.asked import GatewayRequest
from .gateway.custom_logger import (
    AgenticLoopLimitError,
    AgenticLoopPlan,
    AgenticLoopRequestPatch,
    AgenticLoopSafetyError,
    CustomLogger,
)
from .gateway.json_rows import is_done
from .gateway.limits import loops_in
from .gateway.registering import checked_callbacks
from .gateway.rounds import Mode, Surface
from .gateway.settings import GatewaySettings
from .gateway.telling import PlainTelling, StreamTelling
from .guard import Raised, outcome_of
from .messages import Messages
from .model import ModelPort, make_port, resolve_model

callbacks: list[object] = []
"""Who is asked, in this order; instances, no classes."""


async def amessages(
    *,
    model: str | ModelPort,
    messages: list[Raw],
    max_tokens: int,
    max_agentic_loops: int | None = None,
    **more: Any,
) -> Answer | AsyncIterator[Answer]:
    """Ask a model in the words of Anthropic's Messages, in this process.

    Args:
        model: A name of the configuration, `vendor/model`, or a port.
        messages: As the protocol has them.
        max_tokens: How long a reply may be.
        max_agentic_loops: How often the model may be asked again.
        more: Other fields of the request's body, `stream` among them; `api_base` and `api_key` of
            the model; `callbacks` in the place of the module's; and `streaming`, the mode.

    Returns:
        The message; with `stream=True` the events of the stream, as dicts.

    Raises:
        ProviderError: When the service fails.
        CallbackFailed: When a callback does.
    """
    body = {"messages": messages, "max_tokens": max_tokens}
    asking = _Asking(Surface.MESSAGES, model, max_agentic_loops, more)
    return await asking.answer(body)


async def acompletion(
    *,
    model: str | ModelPort,
    messages: list[Raw],
    max_agentic_loops: int | None = None,
    **more: Any,
) -> Answer | AsyncIterator[Answer]:
    """Ask a model in the words of OpenAI's Chat Completions, in this process; see `amessages`.

    A stream is answered without callbacks, unless `streaming` is "merged" or "hold".
    """
    asking = _Asking(Surface.CHAT, model, max_agentic_loops, more)
    return await asking.answer({"messages": messages})


class _Asking:
    def __init__(
        self, surface: Surface, model: str | ModelPort, limit: int | None, more: dict[str, Any]
    ) -> None:
        told = dict(more)
        asked: Sequence[object] = told.pop("callbacks", callbacks)
        connection = {"base_url": told.pop("api_base", None), "api_key": told.pop("api_key", None)}
        self._connection = {name: value for name, value in connection.items() if value}
        self._surface, self._model = surface, model
        self._mode = _mode_of(told.pop("streaming", Mode.COMPATIBLE))
        self._more = told
        self._gateway = Gateway(
            self._resolve,
            checked_callbacks(list(asked), "callbacks"),
            GatewaySettings(),
            limit=loops_in({"max_agentic_loops": limit}, "the call"),
        )

    def _resolve(self, name: str) -> ModelPort:
        if not isinstance(self._model, str):
            return self._model
        # A plan may name another model, which is found by itself.
        is_own = name == self._model and self._connection
        return make_port(name, **self._connection) if is_own else resolve_model(name)

    async def answer(self, body: Raw) -> Answer | AsyncIterator[Answer]:
        name = self._model if isinstance(self._model, str) else self._model.name
        asked = GatewayRequest(self._surface, {"model": name, **body, **self._more}, self._mode)
        context = Context(messages=Messages.of(asked.message()))
        stream = AgentStream(self._gateway.agent_loop, context)
        if asked.streams:
            return self._chunks(stream)
        telling = PlainTelling(self._surface, self._mode)
        async with stream:
            async for event in stream:
                telling.take(event)
        return Answer(orjson.loads(telling.body()), self._surface)

    async def _chunks(self, stream: AgentStream) -> AsyncIterator[Answer]:
        telling = StreamTelling(self._surface, self._mode)
        async with stream, closing(events := _until_over(stream, telling)):
            async for event in events:
                for row in telling.take(event):
                    if not is_done(row):
                        yield Answer(orjson.loads(row[1]))  # noqa: ASYNC119 - it is closed with us


def _mode_of(named: object) -> Mode:
    modes = [each.value for each in Mode]
    if named not in modes:
        raise SetupError(f"streaming is one of {', '.join(modes)}, not {named!r}")
    return Mode(named)


async def _until_over(stream: AgentStream, telling: StreamTelling) -> AsyncIterator[AgentEvent]:
    """Yield the run's events; what fails after something was shown was told by then."""
    while True:
        event = await outcome_of(partial(anext, stream, None))
        if isinstance(event, Raised):
            if not telling.has_shown:
                raise event.error
            return
        if event is None:
            return
        yield event


__all__ = [
    "AgenticLoopLimitError",
    "AgenticLoopPlan",
    "AgenticLoopRequestPatch",
    "AgenticLoopSafetyError",
    "CustomLogger",
    "acompletion",
    "amessages",
    "callbacks",
]
