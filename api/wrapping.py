"""Callbacks that wrap a stream on its way out: they see what the caller gets, and may change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from logging import getLogger
from typing import Any

import orjson

from loops.closing import close
from loops.gateway.answer import Answer
from loops.gateway.asked import GatewayRequest
from loops.gateway.call import user_of
from loops.gateway.failing import failure_of
from loops.gateway.json_rows import DONE, dumped, is_done
from loops.gateway.methods import WRAPPER
from loops.gateway.neighbours import failure_by
from loops.gateway.planning import CallbackFailed, fields_of
from loops.gateway.rendering import ping, sse
from loops.gateway.rounds import Surface
from loops.guard import Raised, outcome_of, outcome_of_call
from loops.jsonable import clean_text, cut_text, jsonable
from loops.tasks import Owner

from .gateway_reading import Reading

logger = getLogger(__name__)


async def wrapped(
    wrappers: Sequence[object], reading: Reading, asked: GatewayRequest
) -> AsyncIterator[bytes]:
    """Yield the stream as the callbacks give it; the first of them stands nearest to the model.

    Of Messages they get the bytes of each event, of a chat completion its chunks, as dicts.
    """
    stream: AsyncIterator[Any] = _pieces(reading, asked.surface)
    sources = [stream]
    for wrapper in wrappers:
        method = getattr(wrapper, WRAPPER)
        stream = method(
            user_api_key_dict=user_of(asked), response=stream, request_data=dict(asked.body)
        )
        sources.append(stream)
    try:
        async for chunk in _written(stream, asked.surface, reading):
            yield chunk
    finally:
        for source in reversed(sources):
            await close(source)


async def _pieces(reading: Reading, surface: Surface) -> AsyncIterator[Any]:
    async for rows in reading.pieces():
        for row in rows:
            if surface is Surface.MESSAGES:
                yield sse([row])
            elif not is_done(row):
                yield Answer(orjson.loads(row[1]))


async def _written(
    stream: AsyncIterator[Any], surface: Surface, reading: Reading
) -> AsyncIterator[bytes]:
    has_any, owner = False, Owner()
    try:
        while True:
            # A callback may take its time; what it waits for goes on meanwhile.
            coming = owner.start(outcome_of(partial(anext, stream, _END)), name="wrapped stream")
            while not (await asyncio.wait({coming}, timeout=reading.quiet.total_seconds()))[0]:
                yield ping(surface)
            piece = coming.result()
            if piece is _END:
                break
            has_any = True
            chunk = piece if isinstance(piece, Raised) else outcome_of_call(partial(_bytes, piece))
            if isinstance(chunk, Raised):
                logger.error("! a callback that wraps a stream raised %s", chunk.text)
                failure = failure_by(chunk.error) or failure_of(chunk.error)
                if rows := reading.telling.fail(failure):
                    yield sse(rows)
                return
            yield chunk
    finally:
        await owner.close()
    if has_any and surface is Surface.CHAT and reading.telling.failure is None:
        yield sse([DONE])


_END = object()
"""What stands for the end of a stream, which no callback gives."""


def _bytes(piece: Any) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, str):
        return clean_text(piece).encode()
    told = piece.model_dump() if isinstance(piece, Answer) else fields_of(piece)
    if told is None:
        raise CallbackFailed(f"a callback that wraps a stream gave {cut_text(repr(piece), 100)}")
    return sse([("", dumped(jsonable(told)))])
