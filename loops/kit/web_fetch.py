"""The tool that reads a page of the web, and nothing that is not of the public web.

    the URL is checked → its name is resolved, once → each address is checked → that address is
    connected to, with the name as its host → a redirect begins again at the left

The model, and whoever wrote what it read, choose the URL; so no header is sent that says anything
of us, and no word of an answer that was refused is told: an error is a way to read as well.
"""

import re
import ssl
import zlib
from asyncio import timeout
from collections.abc import Collection
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Annotated, cast

import httpx
from pydantic import Field

from loops.closing import closing
from loops.errors import ToolFailed, ToolTimedOut
from loops.guard import Raised
from loops.jsonable import cut_text
from loops.tasks import in_thread
from loops.tools import Tool, tool

from .addresses import (
    PORTS,
    IsAllowed,
    Resolve,
    allowed_addresses,
    checked_redirect,
    checked_url,
    is_public,
    resolved,
)
from .html_text import Page, text_of
from .web_body import Unpacked, decoded, is_html, is_readable, kind_of


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one fetch may take."""

    time: timedelta = timedelta(seconds=20)
    """How long all of it may take: each redirect, the page, and reading it."""
    size: int = 2_000_000
    """How many bytes of a page are read, once they are unpacked; the rest is dropped."""
    redirects: int = 5
    tries: int = 3
    """How many addresses of a name are tried until one can be connected to."""
    ports: Collection[int] = PORTS


def make_web_fetch(
    *,
    resolve: Resolve = resolved,
    is_allowed: IsAllowed = is_public,
    transport: httpx.AsyncBaseTransport | None = None,
    limits: FetchLimits | None = None,
    shows_links: bool = True,
) -> Tool:
    """Return the tool `web_fetch`, which reads a page of the web as text.

    Args:
        resolve: Gives the addresses of a name; asked once for each URL.
        is_allowed: Says which addresses may be connected to. Give another one for a network of
            your own, and think of the metadata service of your host when you do.
        transport: What sends the requests; its owner closes it. The default opens a connection for
            each request, and takes no proxy and no certificates from the environment.
        limits: How much a fetch may take.
        shows_links: Whether the address of each link is shown.
    """
    fetcher = _Fetcher(resolve, is_allowed, transport, limits or FetchLimits())

    async def fetch(
        url: Annotated[str, Field(description="The whole URL, with https:// or http://.")],
        max_chars: Annotated[
            int, Field(ge=500, le=100_000, description="How much of the text is returned.")
        ] = 20_000,
    ) -> str:
        """Read a page of the public web. Returns its URL, its title and its text."""
        return await fetcher.text(url, max_chars, shows_links=shows_links)

    return tool(name="web_fetch", read_only=True, idempotent=True)(fetch)


@dataclass(frozen=True, slots=True)
class _Fetched:
    url: httpx.URL
    kind: str
    charset: str
    body: bytes
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Fetcher:
    resolve: Resolve
    is_allowed: IsAllowed
    transport: httpx.AsyncBaseTransport | None
    limits: FetchLimits

    async def text(self, url: str, max_chars: int, *, shows_links: bool) -> str:
        checked = checked_url(url, allowed_ports=self.limits.ports, is_allowed=self.is_allowed)
        scope = timeout(self.limits.time.total_seconds())
        try:
            async with scope:
                fetched = await self._fetched(checked)
                told = partial(_told, fetched, max_chars, shows_links=shows_links)
                # A large page takes a second to read, for which nobody else should wait.
                text = await in_thread(told, name="web_fetch text")
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise ToolTimedOut(
                f"{checked.host!r} took longer than {self.limits.time}; try another page"
            ) from error
        if isinstance(text, Raised):
            raise text.error
        return text

    async def _fetched(self, url: httpx.URL) -> _Fetched:
        for _ in range(self.limits.redirects + 1):
            addresses = await allowed_addresses(url, self.resolve, is_allowed=self.is_allowed)
            opened = nullcontext(self.transport) if self.transport else _new_transport()
            async with opened as transport:
                response = await self._answer(transport, url, addresses)
                async with aclosing(response):
                    location = response.headers.get("location", "")
                    if response.status_code not in _REDIRECTS or not location:
                        return await self._read(url, response)
            url = checked_redirect(
                url, location, allowed_ports=self.limits.ports, is_allowed=self.is_allowed
            )
        raise ToolFailed(f"{url.host!r} redirects more than {self.limits.redirects} times")

    async def _answer(
        self, transport: httpx.AsyncBaseTransport, url: httpx.URL, addresses: list[str]
    ) -> httpx.Response:
        """Ask the first address that can be connected to."""
        unreached: httpx.HTTPError | None = None
        for address in addresses[: self.limits.tries]:
            try:
                return await transport.handle_async_request(self._request(url, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                unreached = error
            except httpx.HTTPError as error:
                raise _failure(url, error) from error
        raise _failure(url, unreached) from unreached

    def _request(self, url: httpx.URL, address: str) -> httpx.Request:
        connect = self.limits.time.total_seconds() / (self.limits.tries + 1)
        return httpx.Request(
            "GET",
            # The address itself: a name would be resolved again, perhaps to something else.
            url.copy_with(host=address),
            headers=[("Host", url.netloc.decode("ascii")), *_HEADERS],
            # Whose certificate it has to be.
            extensions={
                "sni_hostname": url.raw_host.decode("ascii"),
                "timeout": {"connect": connect},
            },
        )

    async def _read(self, url: httpx.URL, response: httpx.Response) -> _Fetched:
        kind, charset = kind_of(response.headers.get("content-type", ""))
        _check_answer(url, kind, response)
        try:
            unpacked = Unpacked(response.headers.get("content-encoding", ""))
            body = await _read_up_to(self.limits.size + 1, response, unpacked)
        except (httpx.HTTPError, ValueError, zlib.error) as error:
            raise _failure(url, error) from error
        size = self.limits.size
        return _Fetched(url, kind, charset, body[:size], is_cut=len(body) > size)


_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_HEADERS = (
    ("User-Agent", "loopmill"),
    ("Accept", "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8"),
    ("Accept-Encoding", "gzip, deflate"),
    # A connection is checked for one name, and another one may have the same address.
    ("Connection", "close"),
)

_LENGTH = re.compile(r"[0-9]{1,15}")


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """Whose certificates are trusted; to read them takes longer than many a page."""
    return httpx.create_ssl_context(trust_env=False)


def _new_transport() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=_trusted(), trust_env=False)


def _check_answer(url: httpx.URL, kind: str, response: httpx.Response) -> None:
    """Refuse what is no text; an answer's own words are not told, whatever it is.

    Raises:
        ToolFailed: When there is nothing to read.
    """
    status = response.status_code
    if not 200 <= status < 300:
        named = HTTPStatus(status).phrase if status in _STATUSES else ""
        raise ToolFailed(f"{url.host!r} answered with the status {f'{status} {named}'.strip()}")
    if not is_readable(kind):
        length = response.headers.get("content-length", "")
        size = f"{int(length):,} bytes" if _LENGTH.fullmatch(length) else "a length it does not say"
        raise ToolFailed(
            f"{url.host!r} answered with {kind or 'what has no type'}, of {size}; only text is read"
        )


_STATUSES = frozenset(map(int, HTTPStatus))


async def _read_up_to(most: int, response: httpx.Response, unpacked: Unpacked) -> bytes:
    body = bytearray()
    # Not through the response, which would unpack it.
    pieces = aiter(cast("httpx.AsyncByteStream", response.stream))
    async with closing(pieces):
        async for piece in pieces:
            body += unpacked.take(piece, most - len(body))
            if len(body) >= most:
                break
    return bytes(body)


def _failure(url: httpx.URL, error: Exception | None) -> ToolFailed:
    """Return what a model is told; the library's own words may quote the answer."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, ssl.SSLCertVerificationError):
        inner = inner.__cause__ or inner.__context__
    if inner is not None:
        return ToolFailed(f"the certificate of {url.host!r} is not valid: {inner.verify_message}")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ToolFailed(f"{url.host!r} cannot be connected to; try again later or another page")
    if isinstance(error, ValueError | zlib.error):
        return ToolFailed(f"the answer of {url.host!r} is packed in a way that cannot be read")
    return ToolFailed(f"the answer of {url.host!r} broke off, or is none of HTTP")


def _told(fetched: _Fetched, max_chars: int, *, shows_links: bool) -> str:
    """Return the URL, the title and the text, as a model reads them."""
    url, is_page = str(fetched.url), is_html(fetched.kind)
    text = decoded(fetched.body, fetched.charset, is_page=is_page)
    page = text_of(text, base_url=url if shows_links else None) if is_page else Page("", text)
    lines = [f"URL: {url}", f"Title: {page.title}" if page.title else ""]
    if fetched.is_cut:
        lines.append(f"[only the first {len(fetched.body)} bytes were read]")
    head = "\n".join(filter(None, lines))
    return f"{head}\n\n{cut_text(page.text, max_chars) or '(no text)'}"


web_fetch = make_web_fetch()
"""Reads pages of the public web, with the limits of `FetchLimits`."""
