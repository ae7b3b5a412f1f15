import socket

import httpx
import pytest

from loops.errors import ToolFailed, ToolRejected
from loops.kit.addresses import (
    allowed_addresses,
    checked_redirect,
    checked_url,
    is_public,
    resolved,
)

PRIVATE = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1"),
    *("127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "fc00::1", "fd00::1"),
    *("fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1"),
    *("64:ff9b:1::1", "100::1", "2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378::1"),
    *("2001:db8::1", "3fff::1", "5f00::1", "2a00::1%1"),
    *("", "example.com", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4 ", "[::1]"),
]

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1"),
    *("172.32.0.1", "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "168.63.129.17"),
    *("2606:4700:4700::1111", "2a00:1450:4001:800::200e", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_of_the_public_internet_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_strangers_reach_is_public(address: str) -> None:
    assert is_public(address)


HOSTILE = [
    # schemes
    *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)"),
    *("//example.com/", "example.com", "", "http:/example.com", "http:example.com", "http://"),
    *("http:///etc", "unix://example.com/", "data:text/html,x", "https+unix://example.com/"),
    # ports
    *("http://example.com:22/", "http://example.com:6379/", "https://example.com:8443/"),
    *("http://example.com:0/", "http://example.com:99999/", "http://example.com:+80/"),
    *("http://example.com:8_0/", "http://example.com:\uff18\uff10/", "http://example.com:80:80/"),
    # users
    *("http://user@example.com/", "http://user:secret@example.com/", "http://@example.com/"),
    *("http://example.com@127.0.0.1/", "http://127.0.0.1:80@example.com/", "http://a@b@c.com/"),
    *("http://example.com\\@127.0.0.1/", "http://example.com/a\\b", "http:\\\\example.com/"),
    # what is not to be seen
    *("http://example.com/\r\nHost: a", "http://exa\tmple.com/", "http://example.com/\0"),
    *(
        "http://example.com /",
        " http://example.com/",
        "http://example.com/\n",
        "http://e\u200b.com",
    ),
    *("http://example.com/\u2028", "http://example.com/\ud83d", "http://exam\u00adple.com/"),
    # odd numbers
    *("http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://0x7f.0.0.1/"),
    *("http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://127.0.0.1./", "http://0/"),
    *(
        "http://010.0.0.1/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://0x/",
        "http://a.0x7f/",
    ),
    *("http://8.8.8.8.1/", "http://example.1/", "http://08.8.8.8/", "http://4294967296/"),
    # private addresses
    *("http://127.0.0.1/", "http://0.0.0.0/", "http://10.0.0.1/", "http://169.254.169.254/latest/"),
    *("http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    *("http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[fd00::1]/", "http://[::1/"),
    *("http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[127.0.0.1]/", "http://[]/"),
    # names
    *("http://localhost/", "http://localhost./", "http://LOCALHOST/", "http://a.localhost/"),
    *("http://redis/", "http://metadata/", "http://example.com./", "http://.example.com/"),
    *(
        "http://a..com/",
        "http://example%2ecom/",
        "http://127.0.0.1%2f.example.com/",
        "http://-a.com",
    ),
    *("http://exa!mple.com/", "http://${host}.com/", "http://a,b.com/", "http://*.example.com/"),
    # letters that stand for others
    *(
        "http://127\u30020\u30020\u30021/",
        "http://example\u3002com/",
        "http://example\uff0ecom/",
        "http://example\uff61com/",
    ),
    *(
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u2460\u2461\u2466.0.0.1/",
        "http://ex\u2044a.com/",
    ),
    *("http://\u24d4xample.com/", "http://\u212aelvin.com/", "http://evil.c\u2100.example.com/"),
    # sizes
    *("http://example.com/" + "a" * 2048, f"http://{'a' * 64}.com/", f"http://{'a.' * 130}com/"),
]


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: ascii(url)[:60])
def test_a_url_that_may_mean_something_else_is_refused(url: str) -> None:
    with pytest.raises(ToolRejected):
        checked_url(url)


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("http://example.com", "http://example.com"),
        ("HTTPS://Example.COM:443/A?b=[1]&c=d#part", "https://example.com/A?b=[1]&c=d"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
        ("http://[2606:4700:4700::1111]/x", "http://[2606:4700:4700::1111]/x"),
        ("https://a_b.example.com/@user?q=a@b", "https://a_b.example.com/@user?q=a@b"),
        ("https://1.example.com/", "https://1.example.com/"),
    ],
)
def test_a_plain_url_is_read_as_it_is_written(url: str, checked: str) -> None:
    assert str(checked_url(url)) == checked


def test_a_refusal_names_the_host_and_no_secret() -> None:
    with pytest.raises(ToolRejected, match="'redis'"):
        checked_url("http://redis/")
    with pytest.raises(ToolRejected) as caught:
        checked_url("http://me:secret@example.com/")

    assert "secret" not in str(caught.value)
    assert "user" in str(caught.value)


def test_a_long_host_is_cut_where_it_is_told() -> None:
    with pytest.raises(ToolRejected) as caught:
        checked_url(f"http://{'a' * 2000}/")

    assert len(str(caught.value)) < 250


def test_other_ports_may_be_allowed() -> None:
    assert checked_url("http://example.com:8080/", allowed_ports={8080}).port == 8080
    with pytest.raises(ToolRejected, match="the port 80 of"):
        checked_url("http://example.com/", allowed_ports={8080})


FROM = httpx.URL("https://example.com/a/b?c")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/x?y[]=1", "https://example.com/x?y[]=1"),
        ("x y", "https://example.com/a/x%20y"),
        ("//other.example/", "https://other.example/"),
        ("http://other.example/#part", "http://other.example/"),
    ],
)
def test_a_redirect_leads_where_a_browser_would_go(location: str, target: str) -> None:
    assert str(checked_redirect(FROM, location)) == target


@pytest.mark.parametrize(
    "location",
    [
        *("http://169.254.169.254/latest/meta-data/", "//127.0.0.1/", "file:///etc/passwd"),
        *("http://user:secret@example.com/", "//[::1]/", "http://[::1", "/a\tb", "//127.1/"),
    ],
)
def test_a_redirect_is_checked_like_the_first_url(location: str) -> None:
    with pytest.raises(ToolRejected, match=r"^'example.com' redirects to what") as caught:
        checked_redirect(FROM, location)

    assert "secret" not in str(caught.value)


async def test_one_private_address_refuses_the_whole_name() -> None:
    async def both(name: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(ToolRejected, match=r"'example\.com'") as caught:
        await allowed_addresses(FROM, both)

    assert "10.0.0.1" not in str(caught.value)


async def test_a_name_is_resolved_once_with_its_port() -> None:
    asked: list[tuple[str, int]] = []

    async def resolve(name: str, port: int) -> list[str]:
        asked.append((name, port))
        return ["93.184.216.34", "2606:4700:4700::1111"]

    addresses = await allowed_addresses(FROM, resolve)

    assert addresses == ["93.184.216.34", "2606:4700:4700::1111"]
    assert asked == [("example.com", 443)]


async def test_an_address_needs_no_name_server() -> None:
    async def never(name: str, port: int) -> list[str]:
        raise AssertionError(name)

    url = httpx.URL("http://[2606:4700:4700::1111]/")

    assert await allowed_addresses(url, never) == ["2606:4700:4700::1111"]


async def test_a_name_without_an_address_is_a_failure_that_names_it() -> None:
    async def unknown(name: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async def nothing(name: str, port: int) -> list[str]:
        return []

    for resolve in (unknown, nothing):
        with pytest.raises(ToolFailed, match=r"'example\.com'"):
            await allowed_addresses(FROM, resolve)


async def test_the_system_is_asked_for_names() -> None:
    found = await resolved("localhost", 80)

    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found))
