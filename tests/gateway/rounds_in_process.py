"""Calls of the gateway in this process, and callbacks for them.

    told = await ask(script, FOUND, surface=CHAT, protocol=MESSAGES, mode=Mode.HOLD, streams=True)
    assert told.text == "found it"

The models are `main` and `other`, both at one upstream that plays the script.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from loops.agent_stream import AgentStream
from loops.agentic import Gateway
from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger
from loops.context import Context
from loops.errors import UnknownModel
from loops.gateway.answer import Answer
from loops.gateway.asked import GatewayRequest
from loops.gateway.folds import folded
from loops.gateway.rounds import Mode, Surface
from loops.gateway.rows import Row
from loops.gateway.settings import GatewaySettings
from loops.gateway.telling import telling_of
from loops.guard import Raised, outcome_of
from loops.messages import Messages
from loops.model import ModelPort
from loops.providers.deployment import DeployedModel, Deployment
from tests.gateway.upstream import Asked, Script, Told, Upstream, call, in_turn, says, upstream

MESSAGES, CHAT = Surface.MESSAGES, Surface.CHAT
SURFACES = list(Surface)
MODES = list(Mode)
KEY = "sk-upstream-canary"

Raw = dict[str, Any]
Method = Callable[..., Awaitable[Any]]

OURS = call("ours", q="x")
CLIENTS = call("clients", path="a")
ASKS = says("let me look. ", calls=[OURS])
FOUND = says("found it")
MIXED = says("let me look. ", calls=[OURS, CLIENTS])


def callback(**methods: Any) -> Any:
    """Return an instance of a class that overrides these methods."""
    return type("Mine", (CustomLogger,), methods)()


def calls_of(response: Any, *names: str) -> list[Raw]:
    return [each for each in response.content or [] if each.get("name") in names]


async def gate(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
    """Take up the calls of the tool `ours`."""
    calls = calls_of(response, "ours")
    return bool(calls), {"tool_calls": calls}


def answered(tools: Raw, messages: list[Raw]) -> list[Raw]:
    """Return the messages that answer the calls, in the shape of Messages."""
    said = [
        {name: each[name] for name in ("type", "id", "name", "input")}
        for each in tools["tool_calls"]
    ]
    results = [{"type": "tool_result", "tool_use_id": each["id"], "content": "42"} for each in said]
    return [
        *messages,
        {"role": "assistant", "content": said},
        {"role": "user", "content": results},
    ]


def again(tools: Raw, messages: list[Raw], /, **patch: Any) -> AgenticLoopPlan:
    """Return the plan that answers the calls and has the model asked again."""
    told = AgenticLoopRequestPatch(messages=answered(tools, messages), **patch)
    return AgenticLoopPlan(run_agentic_loop=True, request_patch=told)


async def builder(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> AgenticLoopPlan:
    return again(tools, messages)


def gives(value: Any) -> Method:
    """Return a method that gives the value."""

    async def method(self: Any, **_: Any) -> Any:
        return value

    return method


def raises(error: BaseException) -> Method:
    """Return a method that raises."""

    async def method(self: Any, **_: Any) -> Any:
        raise error

    return method


def planning(*, async_should_run_agentic_loop: Method = gate, **plan: Any) -> Any:
    """Return a callback whose plan has these fields."""
    return callback(
        async_should_run_agentic_loop=async_should_run_agentic_loop,
        async_build_agentic_loop_plan=gives(AgenticLoopPlan(**plan)),
    )


def patching(**patch: Any) -> Any:
    """Return a callback that answers the calls, with more of a patch."""

    async def build(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> AgenticLoopPlan:
        return again(tools, messages, **patch)

    return callback(async_should_run_agentic_loop=gate, async_build_agentic_loop_plan=build)


def answering(**methods: Any) -> Any:
    """Return a callback that answers the calls of `ours`, with more methods."""
    own = {"async_should_run_agentic_loop": gate, "async_build_agentic_loop_plan": builder}
    return callback(**{**own, **methods})


def hearing(heard: list[Any], note: Callable[[Raw], Any], method: Method) -> Method:
    """Return the method; what is noted of its arguments is put into the list."""

    async def heard_by(self: Any, **told: Any) -> Any:
        heard.append(note(told))
        return await method(self, **told)

    return heard_by


def tool(surface: Surface, name: str) -> Raw:
    schema = {"type": "object"}
    if surface is MESSAGES:
        return {"name": name, "input_schema": schema}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def body_of(surface: Surface, **more: Any) -> Raw:
    tools = [tool(surface, "ours"), tool(surface, "clients")]
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "main", "max_tokens": 99, "messages": messages, "tools": tools, **more}


@dataclass
class Came:
    """What came of a call."""

    surface: Surface
    up: Upstream
    body: Raw = field(default_factory=dict[str, Any])
    """The whole answer; that of a stream is folded."""
    rows: list[Row] = field(default_factory=list[Row])
    """What a caller who streams has got."""
    failure: Any = None
    """What a caller who has nothing yet is told."""
    error: BaseException | None = None
    """What the run has failed with."""

    @property
    def content(self) -> list[tuple[str, str]]:
        """What the answer says, in short."""
        blocks = Answer(self.body, self.surface).content
        return [(b["type"], b.get("text") or b.get("thinking") or b.get("name")) for b in blocks]

    @property
    def reason(self) -> str:
        """Why it ends, in Anthropic's words."""
        return str(Answer(self.body, self.surface).get("stop_reason") or self._chat_reason())

    def _chat_reason(self) -> str:
        reason = self.body["choices"][0]["finish_reason"]
        return {"stop": "end_turn", "tool_calls": "tool_use"}.get(reason, reason)

    @property
    def text(self) -> str:
        return "".join(said for kind, said in self.content if kind == "text")

    @property
    def sent(self) -> list[Raw]:
        """The bodies that the upstream was sent."""
        return [each.body for each in self.up.requests]


def ports(up: Upstream, protocol: Surface, **deployment: Any) -> Callable[[str], ModelPort]:
    """Return what resolves the names of the models."""
    vendor, url = ("anthropic", up.url) if protocol is MESSAGES else ("openai", up.openai_url)

    def resolve(name: str) -> ModelPort:
        if name not in {"main", "other"}:
            raise UnknownModel(name, ["main", "other"])
        real = Deployment(f"{vendor}/m-{name}", base_url=url, api_key=KEY, **deployment)
        return DeployedModel(real)

    return resolve


async def ask(
    script: Script | Told,
    *callbacks: Any,
    surface: Surface = MESSAGES,
    protocol: Surface | None = None,
    mode: Mode = Mode.COMPATIBLE,
    settings: GatewaySettings | None = None,
    deployment: Raw | None = None,
    limit: int | None = None,
    **more: Any,
) -> Came:
    """Ask the gateway, whose upstream plays the script, and return what came of it."""
    async with upstream(script) as up:
        resolve = ports(up, protocol or surface, **(deployment or {}))
        gateway = Gateway(resolve, callbacks, settings, limit=limit)
        request = GatewayRequest(surface, body_of(surface, **more), mode, tenant="acme", key_id="k")
        return await _came(gateway, request, Came(surface, up))


async def _came(gateway: Gateway, request: GatewayRequest, came: Came) -> Came:
    telling = telling_of(request.surface, request.mode, streams=request.streams)
    context = Context(messages=Messages.of(request.message()))
    async with AgentStream(gateway.agent_loop, context) as stream:
        while (event := await outcome_of(partial(anext, stream, None))) is not None:
            if isinstance(event, Raised):
                came.error = event.error
                break
            came.rows += telling.take(event)
    came.failure = telling.failure
    if request.streams and came.rows:
        last = [at for at, (name, _) in enumerate(came.rows) if name == "message_start"]
        came.body = folded(came.surface, came.rows[last[-1] if last else 0 :])
    elif came.failure is None and not request.streams:
        came.body = orjson.loads(telling.body())  # type: ignore[union-attr]
    return came


def always(*calls: Any, **fields: Any) -> Script:
    """Return a script that makes the calls again and again, with fresh ids."""

    def script(asked: Asked) -> Told:
        del asked
        return says("and again. ", calls=calls, **fields)

    return script


def counting(name: str = "ours") -> Script:
    """Return a script that calls the tool again and again, each time otherwise."""

    def script(asked: Asked) -> Told:
        said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
        return says(f"{len(said)}. ", calls=[call(name, n=len(said))])

    return script


TWO = in_turn(ASKS, FOUND)
"""A call, then an answer."""

WAYS: Sequence[tuple[Mode, bool]] = [
    (Mode.COMPATIBLE, False),
    (Mode.MERGED, False),
    (Mode.HOLD, False),
    (Mode.COMPATIBLE, True),
    (Mode.MERGED, True),
    (Mode.HOLD, True),
]
"""Modes, and whether the caller streams."""

WATCHED: Sequence[tuple[Surface, Mode, bool]] = [
    (surface, mode, stream)
    for surface in Surface
    for mode, stream in WAYS
    if not (surface is Surface.CHAT and mode is Mode.COMPATIBLE and stream)
]
"""Ways in which a callback is asked: a chat's stream as it comes passes them by."""
