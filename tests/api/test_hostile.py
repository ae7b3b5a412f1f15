"""Hostile requests: always the caller's mistake in problem JSON, never a fault of the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
from pydantic import SecretStr

from api.app import create_app
from api.limits import BODY_LIMIT
from tests.api.conftest import AGENTS, Live, served
from tests.api.raw import Raw
from tests.api.test_limits import HOSTILE
from worker.settings import Settings

JSON = {"Content-Type": "application/json"}
POSTS = ["/v1/runs", "/v1/sessions"]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", [body for _, body in HOSTILE], ids=[name for name, _ in HOSTILE])
async def test_a_hostile_body_is_400(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    answer = await client.post(path, content=body, headers=JSON)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "retryable"} <= set(answer.json())


INNER = [(name, body) for name, body in HOSTILE if body]


@pytest.mark.parametrize("body", [body for _, body in INNER], ids=[name for name, _ in INNER])
async def test_a_hostile_value_deep_in_a_run_is_400(client: httpx.AsyncClient, body: bytes) -> None:
    content = b'{"agent":"echo","input":[{"role":"user","content":[' + body + b"]}]}"

    answer = await client.post("/v1/runs", content=content, headers=JSON)

    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_json_under_another_name_is_415(client: httpx.AsyncClient, kind: str) -> None:
    body = b'{"agent":"echo","input":"hi"}'
    answer = await client.post("/v1/runs", content=body, headers={"Content-Type": kind})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_past_the_limit_is_413_without_reading_the_rest(live: Live) -> None:
    length = f"Content-Length: {BODY_LIMIT + 1}"
    kind = "Content-Type: application/json"
    async with Raw(live.port, "/v1/runs", length, kind, method="POST") as raw:
        assert raw.status == 413
        assert raw.headers["connection"] == "close"


async def test_a_header_as_long_as_a_book_is_refused(live: Live) -> None:
    cursor = "9" * 1_000_000
    async with Raw(live.port, "/v1/runs/run_1/events", f"Last-Event-ID: {cursor}") as raw:
        assert raw.status == 431


async def test_a_body_without_a_length_is_cut_off_at_the_limit(live: Live) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 65536

    statuses: list[int] = []
    async with httpx.AsyncClient(base_url=live.url) as client:
        # Whoever goes on writing may find the connection closed before it reads the answer.
        with suppress(httpx.WriteError, httpx.ReadError):
            answer = await client.post("/v1/runs", content=endless(), headers=JSON)
            statuses.append(answer.status_code)

    assert statuses in ([], [413])
    assert BODY_LIMIT < sent * 65536 < BODY_LIMIT * 3


async def test_a_stranger_is_refused_before_its_body_is_read(redis_url: str) -> None:
    settings = Settings(redis_url=SecretStr(redis_url), api_keys=(SecretStr("key"),))
    headers = (f"Content-Length: {BODY_LIMIT}", "Content-Type: application/json")
    async with (
        served(create_app(settings, app=AGENTS)) as live,
        Raw(live.port, "/v1/runs", *headers, method="POST") as raw,
    ):
        assert raw.status == 401


HEADS = [
    b"GET /v1/runs/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/runs/run_1/events?after=%FF HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/runs/run_1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: \xff\xfe\r\n\r\n",
    b"GET /v1/runs?before=%0d%0a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/runs?status=%F0%9F%98%80&limit=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    b"GET /v1/runs HTTP/1.1\r\n\r\n",
    b"GET /v1/runs HTTP/1.1\r\nHost: [\r\n\r\n",
    b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n",
    b"GET /v1/runs HTTP/1.1\r\nHost: evil@127.0.0.1\r\n\r\n",
    b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n\r\n",
    b"POST /v1/runs/run_1/cancel?wait=%31%30%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
async def test_an_odd_request_is_refused_and_the_server_goes_on(live: Live, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    writer.write(head)

    status = int((await reader.readline()).split()[1])

    writer.transport.abort()
    assert 400 <= status < 500
    async with Raw(live.port, "/healthz") as raw:
        assert raw.status == 200
