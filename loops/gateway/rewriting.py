"""Requests said in a provider's own words, and replies written in the caller's."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import orjson

from loops.blocks import Raw
from loops.closing import closing
from loops.errors import ProviderError
from loops.kit.estimate import tokens_of
from loops.model import ModelPort, ask
from loops.providers.told import objects
from loops.reply import ModelEvent, StreamEnd, StreamStart

from .chat_writer import ChatWriter
from .folds import folded
from .json_rows import body_row
from .message_writer import MessageWriter
from .reasons import CUT
from .relayed import Relayed
from .rounds import Surface
from .rows import Row, packed
from .translating import model_request
from .usages import is_usage_wanted


async def rewritten(
    model: ModelPort, asked: Relayed, surface: Surface, protocol: Surface
) -> AsyncIterator[ModelEvent]:
    """Yield the reply of a model in the rows of the surface, or as one row that is its body.

    Raises:
        ProviderError: When the service fails. It does not say how its provider calls that, since
            it is no name of the caller's protocol.
    """
    writer, rows = _writer(surface, asked), list[Row]()
    events = ask(model, model_request(surface, asked.body, protocol))
    try:
        async with closing(events):
            async for event in events:
                written = writer.feed(event)
                if isinstance(event, StreamStart):
                    yield event  # noqa: ASYNC119 - whoever reads a reply closes it
                if asked.streams:
                    for each in packed(written):
                        yield each  # noqa: ASYNC119 - as above
                rows += () if asked.streams else written
                if isinstance(event, StreamEnd):
                    for each in packed(_whole(surface, rows)):
                        yield each  # noqa: ASYNC119 - as above
                    yield _ended(event)  # noqa: ASYNC119 - as above
    except ProviderError as error:
        error.kind = ""
        raise


def _writer(surface: Surface, asked: Relayed) -> MessageWriter | ChatWriter:
    model = str(asked.body.get("model", ""))
    if surface is Surface.MESSAGES:
        return MessageWriter(id=f"msg_{uuid4().hex}", model=model)
    tells_usage = is_usage_wanted(asked.body) or not asked.streams
    name = f"chatcmpl-{uuid4().hex}"
    return ChatWriter(id=name, model=model, created=int(time.time()), tells_usage=tells_usage)


def _whole(surface: Surface, rows: list[Row]) -> list[Row]:
    return [body_row(folded(surface, rows))] if rows else []


def _ended(end: StreamEnd) -> StreamEnd:
    return replace(end, stop_reason="end_turn") if end.stop_reason == CUT else end


async def estimated(model: ModelPort, body: Mapping[str, Any]) -> AsyncIterator[ModelEvent]:
    """Yield a guess how many tokens a request of Messages has, as the one row that tells it."""
    yield StreamStart(model=model.name)
    for event in packed([body_row({"input_tokens": tokens_in(body)})]):
        yield event
    yield StreamEnd(stop_reason="end_turn")


def tokens_in(body: Mapping[str, Any]) -> int:
    """Return about how many tokens a request of Messages has, with its system and its tools."""
    system, messages, tools = (body.get(name) for name in ("system", "messages", "tools"))
    said: list[str | Raw] = [system] if isinstance(system, str) else [*objects(system)]
    written = [orjson.dumps(tool).decode() for tool in objects(tools)]
    return sum(map(tokens_of, [*said, *objects(messages), *written]))
