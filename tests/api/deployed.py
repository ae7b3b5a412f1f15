"""The gateway whole, in this process: an API with keys, workers, and the provider they ask."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson
import redis
from pydantic import SecretStr

from api.app import create_app
from api.watch import Watch
from loops.agentic import GATEWAY
from loops.gateway.rounds import Mode
from loops.providers.exchange import new_client
from loops.providers.shipped import sharing
from tests.api.agents_at_hand import app as agents
from tests.api.conftest import served
from tests.fleet import ROOT
from tests.gateway.upstream import Script, Told, Upstream, says, upstream
from tests.invariants import broken_invariants
from tests.worker.driving import Mill
from worker.__main__ import gateway_of
from worker.configuration import configured
from worker.embedded import start_server
from worker.gateway_callbacks import gateway_callbacks
from worker.resources import open_resources
from worker.settings import Settings

T = TypeVar("T")

KEY = "sk-canary-5d1f77"
"""The provider's key: it may be seen by the provider, and by nobody else."""

KEYS = {"acme": "alpha", "globex": "beta"}
"""The keys that the API accepts, by their tenants."""

MESSAGES, CHAT, COUNT = "/v1/messages", "/v1/chat/completions", "/v1/messages/count_tokens"
ROUTES = (MESSAGES, CHAT, COUNT)

PAIRS = [(MESSAGES, "claude"), (MESSAGES, "gpt"), (CHAT, "gpt"), (CHAT, "claude")]
"""Each path, with a model whose provider speaks as its caller does, and with one who does not."""

LIMITED = 8
"""How many models there are of each provider that may be used up by a 429."""


def key_of(model: str) -> str:
    """Return the provider's key of a configured model."""
    return f"{KEY}-{model}"


def configuration(url: str) -> str:
    """Return the file: each model has a key of its own, since a key is paused after a 429."""
    lines = ["model_list:"]
    names = ["", "slow-", "dead-", *(f"limited-{number}-" for number in range(LIMITED))]
    for name in names:
        base = "http://127.0.0.1:9" if name == "dead-" else url
        more = ", timeout: 0.3" if name == "slow-" else ""
        for model, path in (("claude", ""), ("gpt", "/v1")):
            vendor = "anthropic" if model == "claude" else "openai"
            told = f'model: {vendor}/{model}-x, api_base: "{base}{path}"'
            lines.append(f"- model_name: {name}{model}")
            lines.append(f"  params: {{{told}, api_key: {key_of(name + model)}{more}}}")
    lines.append("callbacks: [tests.api.looking_up.look_up, tests.api.looking_up.hidden]")
    lines.append("gateway: {wait: 10s}")
    return "\n".join(lines)


@dataclass(eq=False)
class Deployment:
    """The gateway, and its provider."""

    url: str
    up: Upstream
    thief: Upstream
    """Another provider, which nobody has configured."""
    others: dict[Mode, str] = field(default_factory=dict[Mode, str])
    """The addresses of APIs that are told another mode."""
    lively: str = ""
    """The address of an API whose streams are never silent for long."""

    def plays(self, script: Script | Told) -> None:
        """Have the provider play this from now on, and forget what it was asked."""
        self.up.script = script if callable(script) else lambda _: script
        self.up.asked.clear()

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Ask as the tenant `acme`; a header's underlines stand for its dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.client() as client:
            return client.post(path, json=body, headers=named)

    def client(self, key: str | None = KEYS["acme"]) -> httpx.Client:
        """A client that shows the key."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # Nothing is encrypted here, and to read all certificates takes longer than a request.
        return httpx.Client(base_url=self.url, timeout=20, headers=headers, verify=False)

    @property
    def address(self) -> str:
        """The provider's, as nobody may be told it."""
        return self.up.url.removeprefix("http://")


def asking(path: str, model: str = "", **more: Any) -> dict[str, Any]:
    """Return a body for the path."""
    asked = model or ("gpt" if path == CHAT else "claude")
    body = {"model": asked, "messages": [{"role": "user", "content": "hi"}], **more}
    return body if path == CHAT else {"max_tokens": 50, **body}


def tools_of(path: str, *names: str) -> dict[str, Any]:
    """Return the field of a body that has these tools."""
    schema = {"type": "object"}
    if path == CHAT:
        functions = [{"name": name, "parameters": schema} for name in names]
        return {"tools": [{"type": "function", "function": each} for each in functions]}
    return {"tools": [{"name": name, "input_schema": schema} for name in names]}


def rows_of(text: str) -> list[tuple[str, Any]]:
    """Return the events of a stream: names, and data as it means."""
    rows: list[tuple[str, Any]] = []
    for frame in text.split("\n\n"):
        told = dict(line.partition(": ")[::2] for line in frame.splitlines() if line[0] != ":")
        data = told.get("data")
        if data is not None:
            rows.append((told.get("event", ""), data if data == "[DONE]" else orjson.loads(data)))
    return rows


def check_says_nothing(deployment: Deployment, *answers: httpx.Response) -> None:
    """See that no answer tells of the provider's address, its key, or our code."""
    for answer in answers:
        whole = f"{answer.headers!r}\n{answer.text}"
        for canary in (KEY, deployment.address, "127.0.0.1", "localhost", str(ROOT)):
            assert canary not in whole, whole
        for trace in ("Traceback", 'File "', "httpx", ".py"):
            assert trace not in whole, whole


def check_is_refusal(path: str, answer: httpx.Response, status: int, kind: str = "") -> None:
    """See that the answer is an error in the words of the path's protocol."""
    told = (answer.status_code, answer.headers["content-type"])
    assert told == (status, "application/json"), f"{told}: {answer.text[:500]}"
    assert answer.headers["x-request-id"]
    body = answer.json()
    if path == CHAT:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
    else:
        assert body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}
    assert body["error"]["message"]
    assert kind in {"", body["error"]["type"]}, answer.text


def joined(rows: Sequence[tuple[str, Any]]) -> str:
    """Return the text that a stream says, in either protocol."""
    texts = [data.get("delta", {}).get("text", "") for name, data in rows if name]
    chunks = [data for name, data in rows if not name and data != "[DONE]"]
    choices = [each for chunk in chunks for each in chunk.get("choices", ())]
    return "".join([*texts, *(each["delta"].get("content") or "" for each in choices)])


@contextmanager
def deployed(folder: Path) -> Iterator[Deployment]:
    """Deploy the gateway while the block runs; at the end all that is stored holds together."""
    server = start_server(folder, durable=False)
    try:
        settings = Settings(
            redis_url=SecretStr(server.url),
            namespace="t",
            api_keys=tuple(SecretStr(f"{tenant}:{key}") for tenant, key in KEYS.items()),
            config=folder / "config.yaml",
        )
        with lived(lambda: _running(settings)) as deployment:
            yield deployment
        with redis.Redis.from_url(server.url) as client:
            assert broken_invariants(client) == []
    finally:
        server.stop()


@contextmanager
def lived(opened: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Keep what is opened alive in an event loop of its own, in a thread, while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="deployment", daemon=True)
    thread.start()
    stack = AsyncExitStack()

    def waited(coming: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coming, loop).result(20)

    try:
        yield waited(stack.enter_async_context(opened()))
    finally:
        waited(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@asynccontextmanager
async def _running(settings: Settings) -> AsyncGenerator[Deployment]:
    assert settings.config is not None
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(upstream(says("hello")))
        thief = await stack.enter_async_context(upstream(says("mine")))
        settings.config.write_text(configuration(up.url))
        told = stack.enter_context(configured(settings, {})).gateway(settings.config)
        stack.enter_context(sharing(await stack.enter_async_context(new_client())))
        resources = await stack.enter_async_context(open_resources(settings))
        app = agents.beside(GATEWAY, gateway_of(agents, told))
        mill = Mill(resources.link, app, settings, resources)
        stack.push_async_callback(mill.close)
        await mill.worker("runs")
        await mill.worker("tools")
        watch = Watch(told, gateway_callbacks(agents, told))
        deployment = Deployment("", up, thief)
        for mode in Mode:
            watching = replace(watch, settings=replace(told, streaming=mode))
            deployment.others[mode] = await _served(stack, settings, watching)
        often = replace(watch, settings=replace(told, ping=timedelta(milliseconds=50)))
        deployment.lively = await _served(stack, settings, often)
        deployment.url = deployment.others[Mode.COMPATIBLE]
        yield deployment


async def _served(stack: AsyncExitStack, settings: Settings, watch: Watch) -> str:
    """Serve an API until the stack is closed, and return its address."""
    api = create_app(settings, app=agents, watch=watch)
    return (await stack.enter_async_context(served(api))).url
