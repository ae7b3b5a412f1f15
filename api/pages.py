"""Pages of events: what a reader gets who does not stay."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from http import HTTPStatus

import orjson
from starlette.responses import Response

from .errors import Refusal
from .frames import NOTICES, Frame
from .streams import Feed

LIMIT = 1000
"""How many events a page may hold."""

WAIT_LIMIT = timedelta(seconds=60)
"""How long a request may ask to wait."""

SIZE = 4 * 1024 * 1024
"""How many bytes of events a page holds, but for the last of them."""

_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


def page_limit(text: str | None) -> int:
    """Read how many events a page is to hold.

    Raises:
        Refusal: When the text is no such number.
    """
    digits = str(LIMIT) if text is None else text
    if not (
        digits.isascii() and digits.isdigit() and len(digits) < 10 and 0 < int(digits) <= LIMIT
    ):
        message = f"limit is a whole number from 1 to {LIMIT}, not {digits[:50]!r}"
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_limit", message)
    return int(digits)


def wait_limit(text: str | None) -> timedelta:
    """Read how long a request asks to wait.

    Raises:
        Refusal: When the text is no number of seconds, or too many.
    """
    if text is None:
        return timedelta(0)
    limit = WAIT_LIMIT.total_seconds()
    if _SECONDS.fullmatch(text) is None or float(text) > limit:
        message = f"wait is a number of seconds, at most {limit:g}, not {text[:50]!r}"
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_wait", message)
    return timedelta(seconds=float(text))


async def gather(feed: Feed, *, limit: int, wait: timedelta) -> list[Frame]:
    """Return the next events, at most `limit`; wait for the first of them, not for more."""
    frames: list[Frame] = []
    size = 0
    while len(frames) < limit and size < SIZE:
        batches = await feed.next(timedelta(0) if frames else wait)
        if not batches:
            break
        frames += [frame for batch in batches for frame in batch.frames]
        size += sum(batch.size for batch in batches)
    cut = limit
    # What a stream says about itself belongs together.
    while cut < len(frames) and frames[cut].type in NOTICES:
        cut += 1
    return frames[:cut]


def written(frames: list[Frame], *, after: int | str, is_done: bool) -> Response:
    """Return the page; `after` is the cursor with which to ask for the next."""
    events = b",".join([frame.line for frame in frames])
    done = b"true" if is_done else b"false"
    body = b'{"events":[%b],"next":%b,"done":%b}' % (events, orjson.dumps(after), done)
    return Response(body, media_type="application/json")


async def patience(feed: Feed, wait: timedelta) -> None:
    """Read on until the feed has ended, or the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait.total_seconds()
    while feed.end is None and (left := deadline - loop.time()) > 0:
        await feed.next(timedelta(seconds=left))
