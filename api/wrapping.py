"""Callbacks that wrap a stream on its way out: they see what the caller gets, and may change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from logging import getLogger
from types import SimpleNamespace
from typing import Any

import orjson

from loops.closing import close
from loops.gateway.answer import Answer
from loops.gateway.asked import GatewayRequest
from loops.gateway.failing import failure_of
from loops.gateway.neighbours import failure_by
from loops.gateway.planning import fields_of
from loops.gateway.rendering import error_rows, ping, sse
from loops.gateway.rounds import Surface
from loops.guard import Raised, outcome_of
from loops.tasks import Owner

from .gateway_reading import Reading
from .watch import WRAPPER

logger = getLogger(__name__)

DONE = "[DONE]"


async def wrapped(
    wrappers: Sequence[object], reading: Reading, asked: GatewayRequest
) -> AsyncIterator[bytes]:
    """Yield the stream as the callbacks give it; the first of them stands nearest to the model.

    Of Messages they get the bytes of each event, of a chat completion its chunks, as dicts.
    """
    items: AsyncIterator[Any] = _items(reading, asked.surface)
    sources = [items]
    for wrapper in wrappers:
        user = SimpleNamespace(api_key=asked.key_id, user_id=asked.tenant)
        method = getattr(wrapper, WRAPPER)
        items = method(user_api_key_dict=user, response=items, request_data=dict(asked.body))
        sources.append(items)
    try:
        async for chunk in _written(items, asked.surface, reading.quiet):
            yield chunk
    finally:
        for source in reversed(sources):
            await close(source)


async def _items(reading: Reading, surface: Surface) -> AsyncIterator[Any]:
    async for rows in reading.pieces():
        for row in rows:
            if surface is Surface.MESSAGES:
                yield sse([row])
            elif row[1] != DONE:
                yield Answer(orjson.loads(row[1]))


async def _written(
    items: AsyncIterator[Any], surface: Surface, quiet: timedelta
) -> AsyncIterator[bytes]:
    has_any, owner = False, Owner()
    try:
        while True:
            # A callback may take its time; what it waits for goes on meanwhile.
            coming = owner.start(outcome_of(partial(anext, items, None)), name="wrapped stream")
            while not (await asyncio.wait({coming}, timeout=quiet.total_seconds()))[0]:
                yield ping(surface)
            item = coming.result()
            if item is None:
                break
            has_any = True
            if isinstance(item, Raised):
                logger.error("! a callback that wraps a stream raised %s", item.text)
                failure = failure_by(item.error) or failure_of(item.error)
                yield sse(error_rows(surface, failure))
                return
            yield _bytes(item)
    finally:
        await owner.close()
    if has_any and surface is Surface.CHAT:
        yield sse([("", DONE)])


def _bytes(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    told = item.model_dump() if isinstance(item, Answer) else fields_of(item)
    return sse([("", orjson.dumps(told).decode())])
