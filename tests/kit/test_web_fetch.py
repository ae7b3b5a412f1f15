import asyncio
import gzip
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from loops.kit.web_fetch import FetchLimits, make_web_fetch, web_fetch
from loops.messages import ToolResult
from loops.perform import perform
from loops.tasks import Owner
from loops.testing import wait_until
from loops.tool_context import ToolContext
from loops.tools import Tool

SECRET = "canary-9d1f"

# Made for these tests; good for nothing but the name page.example.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgo7Q/zRqkL78CsWMb
dNY6dEn6WdDO3EGzKN71/WBkvSqhRANCAAShmdOWGupAX9J2FgQ9JIT4YQyZR42A
JnP9Gr/ejcIacsvjh2QtdDM+u82A3iU29PlSkzdfEcxa3Xt24a+CXQK7
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBajCCARCgAwIBAgIBATAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxwYWdlLmV4
YW1wbGUwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBcxFTATBgNV
BAMMDHBhZ2UuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKGZ05Ya
6kBf0nYWBD0khPhhDJlHjYAmc/0av96Nwhpyy+OHZC10Mz67zYDeJTb0+VKTN18R
zFrde3bhr4JdArujSzBJMBcGA1UdEQQQMA6CDHBhZ2UuZXhhbXBsZTAPBgNVHRMB
Af8EBTADAQH/MB0GA1UdDgQWBBRzx8eW3oqXjjNjpPf69lnnK8bufzAKBggqhkjO
PQQDAgNIADBFAiANSpHb2/uVNzwP6X7nyfBEyLbcovSzDCeRyOK9s8ms1wIhAJgO
I/wOHiRaC8nramtJItPLCNEgKd8WLVnRP9+qYYOA
-----END CERTIFICATE-----
"""


async def fetched(tool: Tool, url: str, **arguments: object) -> ToolResult:
    return await perform(tool, json.dumps({"url": url, **arguments}), ToolContext())


@dataclass
class Web(httpx.AsyncBaseTransport):
    """A web of canned answers, which keeps what it is asked."""

    answers: dict[str, httpx.Response] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    asked: list[httpx.Request] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if request.url.host in self.unreachable:
            raise httpx.ConnectError(SECRET)
        name = request.headers["Host"]
        return self.answers[f"{request.url.scheme}://{name}{request.url.raw_path.decode()}"]

    async def resolve(self, name: str, port: int) -> list[str]:
        self.resolved.append(name)
        return self.names.get(name, ["93.184.216.34"])

    async def fetch(self, url: str, **arguments: object) -> ToolResult:
        return await fetched(make_web_fetch(resolve=self.resolve, transport=self), url, **arguments)

    @property
    def connected(self) -> list[str]:
        return [request.url.host for request in self.asked]


def page(text: str, **headers: str) -> httpx.Response:
    return httpx.Response(200, html=text, headers=headers)


def moved(location: str, status: int = 302) -> httpx.Response:
    return httpx.Response(status, text=SECRET, headers={"Location": location})


async def test_a_page_is_told_with_its_url_its_title_and_its_text() -> None:
    web = Web({"https://e.org/x?y=1": page("<title>T</title><p>One <a href=/z>two</a>")})

    result = await web.fetch("https://E.org/x?y=1#part")

    assert not result.is_error
    assert result.content == ("URL: https://e.org/x?y=1\nTitle: T\n\nOne two (https://e.org/z)")


async def test_the_address_is_connected_to_with_the_name_as_its_host() -> None:
    web = Web({"https://e.org/": page("x")}, {"e.org": ["2606:4700:4700::1111"]})

    await web.fetch("https://e.org/")

    [request] = web.asked
    assert request.url == "https://[2606:4700:4700::1111]/"
    assert request.extensions["sni_hostname"] == "e.org"
    assert {name: request.headers[name] for name in request.headers} == {
        "host": "e.org",
        "user-agent": "loopmill",
        "accept": "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8",
        "accept-encoding": "gzip, deflate",
        "connection": "close",
    }


async def test_a_second_answer_of_the_name_server_changes_nothing() -> None:
    web = Web({"http://e.org/": page("x")})
    answers = [["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]]

    async def rebinding(name: str, port: int) -> list[str]:
        return answers.pop(0)

    result = await fetched(make_web_fetch(resolve=rebinding, transport=web), "http://e.org/")

    assert not result.is_error
    assert web.connected == ["93.184.216.34"]
    assert len(answers) == 2


async def test_a_redirect_to_the_same_name_is_resolved_and_checked_again() -> None:
    web = Web({"http://e.org/": moved("/next"), "http://e.org/next": page(SECRET)})
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    async def rebinding(name: str, port: int) -> list[str]:
        return answers.pop(0)

    result = await fetched(make_web_fetch(resolve=rebinding, transport=web), "http://e.org/")

    assert result.text == (
        "ToolRejected: 'e.org' leads to an address that is not of the public internet"
    )
    assert web.connected == ["93.184.216.34"]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:169.254.169.254"]]
)
async def test_one_private_address_of_a_name_refuses_it(addresses: list[str]) -> None:
    web = Web({"http://e.org/": page(SECRET)}, {"e.org": addresses})

    result = await web.fetch("http://e.org/")

    assert result.text.startswith("ToolRejected: 'e.org' leads to")
    assert web.asked == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "file:///x"),
        *("http://localhost./", "http://u:p@e.org/", "http://e.org:6379/", "http://e.org/\r\nA: b"),
    ],
)
async def test_nothing_is_resolved_of_a_url_that_is_refused(url: str) -> None:
    web = Web()

    result = await web.fetch(url)

    assert result.text.startswith("ToolRejected: ")
    assert (web.asked, web.resolved) == ([], [])


@pytest.mark.parametrize(
    "location",
    [
        *("http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/"),
        *("//[fd00:ec2::254]/", "http://me:secret@e.org/", "gopher://e.org/", "//0x7f.1/"),
    ],
)
async def test_a_redirect_to_a_forbidden_place_is_not_followed(location: str) -> None:
    web = Web({"http://e.org/": moved(location)})
    web.names["metadata.google.internal"] = ["169.254.169.254"]

    result = await web.fetch("http://e.org/")

    assert result.text.startswith("ToolRejected: ")
    assert web.connected == ["93.184.216.34"]
    assert "secret" not in result.text


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_to_its_own_host(status: int) -> None:
    web = Web({"http://e.org/a": moved("https://f.org/b", status), "https://f.org/b": page("x")})
    web.names["f.org"] = ["1.1.1.1"]

    result = await web.fetch("http://e.org/a")

    assert result.content == "URL: https://f.org/b\n\nx"
    assert web.connected == ["93.184.216.34", "1.1.1.1"]
    assert [each.extensions["sni_hostname"] for each in web.asked] == ["e.org", "f.org"]


async def test_five_redirects_are_followed_and_not_six() -> None:
    web = Web({f"http://e.org/{at}": moved(f"/{at + 1}") for at in range(6)})
    web.answers["http://e.org/6"] = page("end")

    assert (await web.fetch("http://e.org/1")).content == "URL: http://e.org/6\n\nend"
    result = await web.fetch("http://e.org/0")

    assert result.text == "ToolFailed: 'e.org' redirects more than 5 times"
    assert len(web.asked) == 12


async def test_the_next_address_is_tried_when_one_cannot_be_connected_to() -> None:
    web = Web({"http://e.org/": page("x")}, unreachable={"2606:4700:4700::1111"})
    web.names["e.org"] = ["2606:4700:4700::1111", "1.1.1.1"]

    result = await web.fetch("http://e.org/")

    assert result.content == "URL: http://e.org/\n\nx"
    assert web.connected == ["2606:4700:4700::1111", "1.1.1.1"]


async def test_a_host_that_cannot_be_connected_to_is_named() -> None:
    web = Web(unreachable={"93.184.216.34"})

    result = await web.fetch("http://e.org/?key=secret")

    assert result.text == (
        "ToolFailed: 'e.org' cannot be connected to; try again later or another page"
    )


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (404, "404 Not Found"),
        (500, "500 Internal Server Error"),
        (304, "304 Not Modified"),
        (302, "302 Found"),
        (799, "799"),
    ],
)
async def test_an_error_tells_the_status_and_nothing_of_the_body(status: int, told: str) -> None:
    response = httpx.Response(status, text=SECRET, extensions={"reason_phrase": SECRET.encode()})

    result = await Web({"http://e.org/": response}).fetch("http://e.org/")

    assert result.text == f"ToolFailed: 'e.org' answered with the status {told}"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("application/pdf", "application/pdf, of 11 bytes; only text is read"),
        ("image/png; a=b", "image/png, of 11 bytes; only text is read"),
        ("", "what has no type, of 11 bytes; only text is read"),
        (f"<{SECRET}>", "what has no type, of 11 bytes; only text is read"),
    ],
)
async def test_what_is_no_text_is_refused_by_its_type_and_size(kind: str, told: str) -> None:
    response = httpx.Response(200, content=SECRET.encode(), headers={"Content-Type": kind})

    result = await Web({"http://e.org/": response}).fetch("http://e.org/")

    assert result.text == f"ToolFailed: 'e.org' answered with {told}"


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/json", "application/problem+json", "text/markdown"),
        *("application/xml", "application/atom+xml", "TEXT/CSV; charset=utf-8"),
    ],
)
async def test_other_text_is_told_as_it_is(kind: str) -> None:
    text = "<a>\n  &amp; {}\n"
    response = httpx.Response(200, content=text.encode(), headers={"Content-Type": kind})

    result = await Web({"http://e.org/": response}).fetch("http://e.org/")

    assert result.content == f"URL: http://e.org/\n\n{text}"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html; charset=iso-8859-1", "é".encode("latin-1")),
        ('text/html; charset="windows-1252"', "é".encode("cp1252")),
        ("text/html", b"<meta charset=iso-8859-15>" + "é".encode("iso-8859-15")),
        ("text/html", b'<meta content="text/html; charset=utf-8">' + "é".encode()),
        ("text/html; charset=bogus", "é".encode()),
        ("text/html; charset=latin-1", b"\xef\xbb\xbf" + "é".encode()),
        ("text/html; charset=utf-16-le", "é".encode("utf-16-le")),
        ("text/html", b"<meta charset=utf-16>" + "é".encode()),
        ("text/html; charset=punycode", "é".encode()),
        ("text/html; charset=zlib", "é".encode()),
        ("text/plain", "é".encode()),
    ],
)
async def test_the_charset_is_the_one_that_is_said(kind: str, body: bytes) -> None:
    response = httpx.Response(200, content=body, headers={"Content-Type": kind})

    result = await Web({"http://e.org/": response}).fetch("http://e.org/")

    assert result.content == "URL: http://e.org/\n\né"


async def test_a_byte_that_does_not_fit_is_replaced() -> None:
    response = httpx.Response(200, content=b"a\xffb", headers={"Content-Type": "text/html"})

    result = await Web({"http://e.org/": response}).fetch("http://e.org/")

    assert result.content == "URL: http://e.org/\n\na\ufffdb"


async def test_the_text_is_cut_with_its_true_length() -> None:
    web = Web({"http://e.org/": page(f"<p>{'x' * 600}")})

    result = await web.fetch("http://e.org/", max_chars=500)

    shown = f"{'x' * 500}\n[cut: 600 characters in all, the first 500 are shown]"
    assert result.content == f"URL: http://e.org/\n\n{shown}"


@pytest.mark.parametrize("max_chars", [499, 100_001])
async def test_how_much_is_told_has_bounds(max_chars: int) -> None:
    result = await Web().fetch("http://e.org/", max_chars=max_chars)

    assert result.text.startswith("InvalidArguments: the arguments of 'web_fetch' do not fit")


async def test_a_page_without_text_says_so() -> None:
    result = await Web({"http://e.org/": page("<script>x</script>")}).fetch("http://e.org/")

    assert result.content == "URL: http://e.org/\n\n(no text)"


async def test_the_addresses_of_links_may_be_left_out() -> None:
    web = Web({"http://e.org/": page("<a href=/x>x</a>")})
    tool = make_web_fetch(resolve=web.resolve, transport=web, shows_links=False)

    assert (await fetched(tool, "http://e.org/")).content == "URL: http://e.org/\n\nx"


def test_the_tool_that_is_ready_made_changes_nothing() -> None:
    assert (web_fetch.name, web_fetch.read_only) == ("web_fetch", True)
    assert set(web_fetch.schema["properties"]) == {"url", "max_chars"}
    assert web_fetch.schema["required"] == ["url"]


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "https://localhost/", "http://[::1]/"])
async def test_the_tool_that_is_ready_made_reaches_nothing_private(url: str) -> None:
    assert (await fetched(web_fetch, url)).text.startswith("ToolRejected: ")


Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A real server of this machine, and what it is asked."""

    respond: Respond
    port: int = 0
    heads: list[str] = field(default_factory=list)
    is_left: bool = False

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await self.respond(writer)
                await writer.drain()
        finally:
            self.is_left = True
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def fetcher(self, **options: Any) -> Tool:
        limits = replace(options.pop("limits", FetchLimits()), ports={self.port})
        return make_web_fetch(
            resolve=loopback, is_allowed="127.0.0.1".__eq__, limits=limits, **options
        )


async def loopback(name: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def served(respond: Respond, context: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site, owner = Site(respond), Owner()

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner.start(site.meet(reader, writer), name="connection")

    server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=context)
    async with server:
        site.port = server.sockets[0].getsockname()[1]
        try:
            yield site
        finally:
            await owner.close()


def written(body: bytes, *headers: str, kind: str = "text/html") -> Respond:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {kind}", *headers])

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + b"\r\n\r\n" + body)

    return respond


async def test_a_real_server_is_read() -> None:
    async with served(written(b"<title>T</title>x", "Content-Length: 17")) as site:
        url = f"http://page.example:{site.port}/a?b"
        result = await fetched(site.fetcher(), url)

    assert result.content == f"URL: {url}\nTitle: T\n\nx"
    [head] = site.heads
    assert head.startswith(f"GET /a?b HTTP/1.1\r\nHost: page.example:{site.port}\r\n")


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with served(written(b"x")) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert not result.is_error


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10000000000\r\n\r\n"
    )
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_a_body_of_ten_gigabytes_ends_at_two_million_bytes() -> None:
    async with served(endless) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")
        await wait_until(lambda: site.is_left, for_="the connection to be closed")

    assert "[only the first 2000000 bytes were read]" in result.text
    assert "[cut: 2000000 characters in all, the first 20000 are shown]" in result.text


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def dripping(head: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.01)

    return respond


@pytest.mark.parametrize(
    "respond",
    [
        silent,
        dripping(b""),
        dripping(b"HTTP/1.1 200 OK\r\nX: "),
        dripping(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
    ],
    ids=["nothing", "status", "header", "body"],
)
async def test_a_server_that_sends_a_byte_now_and_then_is_left_in_time(respond: Respond) -> None:
    limits = FetchLimits(time=timedelta(milliseconds=150))

    async with served(respond) as site, asyncio.timeout(5):
        url = f"http://page.example:{site.port}/?key={SECRET}"
        result = await fetched(site.fetcher(limits=limits), url)

    assert result.text == (
        "ToolTimedOut: 'page.example' took longer than 0:00:00.150000; try another page"
    )


async def test_a_name_server_that_is_silent_is_left_in_time() -> None:
    async def resolve(name: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    limits = FetchLimits(time=timedelta(milliseconds=20))

    result = await fetched(make_web_fetch(resolve=resolve, limits=limits), "http://e.org/")

    assert result.text.startswith("ToolTimedOut: 'e.org' took longer than")


class Impatient(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise TimeoutError("its own limit")


async def test_a_limit_of_the_transports_own_is_told_as_such() -> None:
    tool = make_web_fetch(transport=Impatient(), resolve=Web().resolve)

    assert (await fetched(tool, "http://e.org/")).text == "TimeoutError: its own limit"


BOMB = gzip.compress(b"\0" * 50_000_000, 9)


@pytest.mark.parametrize("kind", ["text/plain", "text/html"])
async def test_what_unpacks_to_far_more_ends_at_the_same_size(kind: str) -> None:
    async with served(written(BOMB, "Content-Encoding: gzip", kind=kind)) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert "[only the first 2000000 bytes were read]" in result.text
    assert len(result.text) < 21_000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"packed", mtime=0)),
        ("X-Gzip", gzip.compress(b"packed", mtime=0)),
        ("deflate", zlib.compress(b"packed")),
        ("deflate", zlib.compress(b"packed", wbits=-zlib.MAX_WBITS)),
        ("identity", b"packed"),
    ],
)
async def test_packed_pages_are_unpacked(encoding: str, body: bytes) -> None:
    async with served(written(body, f"Content-Encoding: {encoding}")) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert result.text.endswith("\n\npacked")


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "gzip"])
async def test_what_cannot_be_unpacked_is_refused_without_its_words(encoding: str) -> None:
    body = SECRET.encode() if encoding == "gzip" else gzip.compress(SECRET.encode())

    async with served(written(body, f"Content-Encoding: {encoding}")) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert result.text == (
        "ToolFailed: the answer of 'page.example' is packed in a way that cannot be read"
    )


@pytest.mark.parametrize(
    "answer",
    [f"-ERR {SECRET}\r\n", "", f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n", "HTTP/1.1 200 OK\r\n"],
)
async def test_no_word_of_another_protocol_is_told(answer: str) -> None:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(answer.encode())

    async with served(respond) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert result.text == "ToolFailed: the answer of 'page.example' broke off, or is none of HTTP"


async def test_a_page_that_breaks_off_is_an_error() -> None:
    async with served(written(b"half", "Content-Length: 1000")) as site:
        result = await fetched(site.fetcher(), f"http://page.example:{site.port}/")

    assert result.text.startswith("ToolFailed: the answer of 'page.example' broke off")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    path.write_text(CERTIFICATE, encoding="ascii")
    return path


async def test_the_certificate_is_that_of_the_name_and_not_of_the_address(
    certificate: Path,
) -> None:
    names: list[str | None] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _, name, __: names.append(name)
    trusting = httpx.AsyncHTTPTransport(verify=ssl.create_default_context(cafile=certificate))

    async with served(written(b"secure"), context) as site, trusting:
        tool = site.fetcher(transport=trusting)
        right = await fetched(tool, f"https://page.example:{site.port}/")
        wrong = await fetched(tool, f"https://other.example:{site.port}/")

    assert right.text.endswith("\n\nsecure")
    assert wrong.text.startswith("ToolFailed: the certificate of 'other.example' is not valid: ")
    assert names == ["page.example", "other.example"]
    assert len(site.heads) == 1


async def test_a_certificate_that_nobody_knows_is_refused(certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async with served(written(SECRET.encode()), context) as site:
        result = await fetched(site.fetcher(), f"https://page.example:{site.port}/")

    assert result.text.startswith("ToolFailed: the certificate of 'page.example' is not valid: ")
