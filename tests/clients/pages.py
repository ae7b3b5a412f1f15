"""A web server of one page, which hears what its page has to say, and a browser that opens it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

PAGE = Path(__file__).parent / "follow.html"


class Site:
    """The page's own origin."""

    def __init__(self) -> None:
        self.port = 0
        self.said: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, stream: str) -> str:
        """The address of a page that follows the stream."""
        return f"{self.origin}/?stream={quote(stream, safe='')}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = PAGE.read_bytes() if head.startswith("get / ") or "/?stream=" in head else b""
        if head.startswith("post /seen"):
            length = int(head.partition("content-length:")[2].split()[0])
            self.said.set_result(json.loads(await reader.readexactly(length)))
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + body
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def open_site() -> AsyncGenerator[Site]:
    """The site, while it is open."""
    site = Site()
    server = await asyncio.start_server(site.answer, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


@asynccontextmanager
async def open_browser(url: str, home: Path) -> AsyncGenerator[None]:
    """A browser without a window that shows the page."""
    browser = await asyncio.create_subprocess_exec(
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", f"--user-data-dir={home}", url,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        browser.terminate()
        await browser.wait()
