import asyncio
import time
from contextlib import suppress
from datetime import timedelta

import pytest
from starlette.requests import Request
from starlette.types import Message

from api.errors import Refusal
from api.limits import DEPTH_LIMIT, check_is_json, parse_json, read_body

HOSTILE = [
    ("nested 1,000", b"[" * 1000 + b"]" * 1000),
    ("nested 100,000", b"[" * 100_000 + b"]" * 100_000),
    ("nested objects", b'{"a":' * 100 + b"1" + b"}" * 100),
    ("only opened", b"[" * 100_000),
    ("5,000 digits", b"1" * 5000),
    ("beyond 64 bits", b'{"a":9223372036854775808}'),
    ("NaN", b'{"a":NaN}'),
    ("Infinity", b"[-Infinity]"),
    ("1e999", b'{"a":1e999}'),
    ("lone surrogate", b'{"a":"\\ud800"}'),
    ("lone low surrogate", b'{"a":"\\udc00"}'),
    ("invalid UTF-8", b'{"a":"\xff"}'),
    ("overlong UTF-8", b'{"a":"\xc0\xaf"}'),
    ("raw NUL", b'{"a":"\0"}'),
    ("escaped NUL", b'{"a":["\\u0000"]}'),
    ("NUL in a key", b'{"\\u0000":1}'),
    ("duplicate keys", b'{"a":1,"a":2}'),
    ("duplicate keys by escape", b'{"a":1,"\\u0061":2}'),
    ("BOM", b"\xef\xbb\xbf{}"),
    ("UTF-16", '{"a":1}'.encode("utf-16")),
    ("empty", b""),
    ("trailing comma", b'{"a":1,}'),
    ("two values", b"{}{}"),
    ("comment", b"{/**/}"),
    ("single quotes", b"{'a':1}"),
    ("unfinished text", b'{"a":"' + b"x" * 1000),
    ("many quotes", b'"' + b'\\"' * 100_000),
]


@pytest.mark.parametrize("body", [body for _, body in HOSTILE], ids=[name for name, _ in HOSTILE])
def test_hostile_json_is_the_callers_mistake(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse_json(body)

    assert refused.value.status == 400


GOOD = [
    (b'{"a":[1,2.5,-3,true,null,"x"]}', {"a": [1, 2.5, -3, True, None, "x"]}),
    (b'"[[[[{{{"', "[[[[{{{"),
    (b'"\\u005cu0000"', "\\u0000"),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b"9223372036854775807", 2**63 - 1),
    (b"-9223372036854775808", -(2**63)),
    (b" [ ] ", []),
    (b'{"a":{"a":1}}', {"a": {"a": 1}}),
]


@pytest.mark.parametrize(("body", "value"), GOOD)
def test_plain_json_is_read(body: bytes, value: object) -> None:
    assert parse_json(body) == value


def test_the_depth_limit_is_exact() -> None:
    def nested(depth: int) -> bytes:
        return b"[" * depth + b"]" * depth

    parse_json(nested(DEPTH_LIMIT))
    with pytest.raises(Refusal, match="deeper"):
        parse_json(nested(DEPTH_LIMIT + 1))


EXPENSIVE = [
    b'"' + b'\\"' * 2_000_000,
    b'"" ' * 1_500_000,
    b"{}" * 2_000_000,
    b"," * 4_000_000,
    b'["' + b"x" * 4_000_000 + b'"]',
    b'{"a":1' + b',"a":1' * 100_000 + b"}",
]


@pytest.mark.parametrize("body", EXPENSIVE, ids=range(len(EXPENSIVE)))
def test_no_body_takes_long_to_be_judged(body: bytes) -> None:
    began = time.process_time()

    with suppress(Refusal):
        parse_json(body)

    assert time.process_time() - began < 2


class Body:
    """A request whose body comes in pieces, and that counts how many were asked for."""

    def __init__(self, *pieces: bytes, headers: dict[str, str] | None = None) -> None:
        self.pieces = list(pieces)
        self.asked = 0
        raw = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self.request = Request({"type": "http", "headers": raw}, self.receive)

    async def receive(self) -> Message:
        self.asked += 1
        if not self.pieces:
            await asyncio.Event().wait()
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}


async def test_a_body_is_read_to_its_end() -> None:
    assert await read_body(Body(b"ab", b"c").request) == b"abc"


async def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413() -> None:
    assert await read_body(Body(b"abcd", b"e").request, limit=5) == b"abcde"

    with pytest.raises(Refusal) as refused:
        await read_body(Body(b"abcd", b"ef").request, limit=5)

    assert refused.value.status == 413
    assert refused.value.headers["Connection"] == "close"


async def test_nothing_is_read_past_the_limit() -> None:
    body = Body(*[b"x" * 10] * 100)

    with pytest.raises(Refusal):
        await read_body(body.request, limit=25)

    assert body.asked == 3


async def test_a_body_that_announces_too_much_is_not_read_at_all() -> None:
    body = Body(b"x", headers={"content-length": "26"})

    with pytest.raises(Refusal) as refused:
        await read_body(body.request, limit=25)

    assert refused.value.status == 413
    assert body.asked == 0


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "", "٣"])
async def test_a_length_that_is_none_is_400(length: str) -> None:
    headers = [(b"content-length", length.encode())]
    request = Request({"type": "http", "headers": headers}, Body(b"x").receive)

    with pytest.raises(Refusal, match="length"):
        await read_body(request)


async def test_a_body_that_does_not_come_is_408() -> None:
    request = Body(headers={"content-length": "5"}).request

    with pytest.raises(Refusal) as refused:
        await read_body(request, patience=timedelta(milliseconds=20))

    assert refused.value.status == 408


TYPES = [
    ({"content-type": "application/json"}, True),
    ({"content-type": "Application/JSON; charset=utf-8"}, True),
    ({"content-type": "text/plain"}, False),
    ({"content-type": "application/x-www-form-urlencoded"}, False),
    ({"content-type": "application/json, text/plain"}, False),
    ({}, False),
    ({"content-type": "application/json", "content-encoding": "gzip"}, False),
]


@pytest.mark.parametrize(("headers", "is_taken"), TYPES)
def test_only_json_is_taken(headers: dict[str, str], is_taken: bool) -> None:
    if is_taken:
        check_is_json(headers)
    else:
        with pytest.raises(Refusal) as refused:
            check_is_json(headers)
        assert refused.value.status == 415
