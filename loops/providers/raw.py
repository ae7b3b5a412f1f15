"""A reply that comes whole, as bytes: the I/O of requests that are passed on."""

from dataclasses import replace
from typing import Any, cast

import httpx

from loops.errors import Unavailable

from .exchange import Exchange, opened, posted, start_of
from .failures import failure_of_refusal, refusal_of, tells_failure
from .reading import read_json
from .sse import LONGEST
from .told import fields


async def whole(
    asked: Exchange, model: str, *, has: str, client: httpx.AsyncClient | None = None
) -> tuple[str, dict[str, Any]]:
    """Send the request; return the reply as it came, and what it says.

    `has` is the field without which it is no reply. A text that holds halves of characters, which
    nobody could read, is written anew.

    Raises:
        ProviderError: When the service refuses, fails, or answers with what is no reply.
        httpx.TransportError: When it cannot be reached, or the connection breaks.
    """
    asked = replace(asked, headers={**asked.headers, "accept": "application/json"})
    async with opened(client) as own, posted(own, asked) as response:
        if not response.is_success:
            body = await start_of(response)
            refusal = refusal_of(body, status=response.status_code, headers=response.headers)
            raise failure_of_refusal(model, refusal, secret=asked.secret)
        body = await _body(response, model)
    text, told = read_json(body)
    if has in fields(told):
        return text, cast("dict[str, Any]", told)
    refusal = refusal_of(body, headers=response.headers)
    if told is not None and tells_failure(refusal):
        raise failure_of_refusal(model, refusal, secret=asked.secret)
    kind = response.headers.get("content-type", "").partition(";")[0].strip() or "nothing"
    raise Unavailable(f"the model {model!r} answered with {kind}, and not with a reply")


async def _body(response: httpx.Response, model: str) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LONGEST:
            raise Unavailable(f"the model {model!r} sent a reply of more than {LONGEST} bytes")
    return bytes(body)
