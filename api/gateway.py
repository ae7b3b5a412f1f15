"""The gateway's routes: a request in a provider's protocol becomes a run, its log the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from loops.agentic import GATEWAY
from loops.errors import InvalidInput, UnknownModel
from loops.gateway.asked import PASSED_ON, GatewayRequest, Operation
from loops.gateway.rounds import Mode, Surface
from loops.gateway.translating import cleaned_body
from loops.model import configured_models
from worker.new_run import NewRun

from .agent_requests import AGENT, agent_run, is_agent
from .desk import Desk, desk_of, promptly
from .errors import invalid_request
from .gateway_answer import GatewayAnswer, Told
from .idempotency import idempotency_of
from .limits import read_json

BODY_LIMIT = 32 * 1024 * 1024
"""Bytes of a body: what the providers themselves take."""

CONTENT_KEPT = timedelta(minutes=5)
"""How long what was asked and answered is kept after a run's end."""

MODES = [each.value for each in Mode]

STREAMING = "x-loopmill-streaming"
"""The header by which a caller names the mode."""


async def answer_messages(request: Request) -> Response:
    """Answer a request in the words of Anthropic's Messages."""
    return await _answer(request, Surface.MESSAGES)


async def answer_chat(request: Request) -> Response:
    """Answer a request in the words of OpenAI's Chat Completions."""
    return await _answer(request, Surface.CHAT)


async def count_tokens(request: Request) -> Response:
    """Say how many tokens a request to Messages has."""
    return await _answer(request, Surface.MESSAGES, "count_tokens")


async def _answer(request: Request, surface: Surface, operation: Operation = "create") -> Response:
    desk = desk_of(request)
    body = _checked(await read_json(request, limit=BODY_LIMIT))
    asked = GatewayRequest(
        surface,
        body,
        operation=operation,
        headers=_forwarded(request),
        tenant=desk.tenant,
        key_id=desk.caller.key_id,
    )
    asked = replace(asked, mode=_mode(request, desk, asked))
    new = replace(_run_of(desk, asked), idempotency=idempotency_of(request, body))
    created = await promptly(desk.office.resources.runs.create(desk.tenant, new))
    told = Told(asked, created.run_id, created.session_id, goes_on=new.idempotency is not None)
    return GatewayAnswer(desk, told)


def _forwarded(request: Request) -> dict[str, str]:
    """Return what of the headers goes on; one that came several times is one list."""
    told = {name: ", ".join(request.headers.getlist(name)) for name in PASSED_ON}
    for name, value in told.items():
        if not value.isascii():
            raise invalid_request(f"{name}: it is text of ASCII characters")
    return {name: value for name, value in told.items() if value}


def _checked(body: object) -> dict[str, Any]:
    """Return the body without what is not its caller's to say; the rest its provider checks."""
    if not isinstance(body, dict):
        raise InvalidInput("the body is an object with model and messages")
    told = cleaned_body(cast("dict[str, Any]", body))
    model, messages = told.get("model"), told.get("messages")
    if not isinstance(model, str) or not 0 < len(model) <= 200:
        raise invalid_request("model: it is the name of a model, as text")
    if not isinstance(messages, list) or not messages:
        raise invalid_request("messages: it is a list of messages, at least one")
    if not isinstance(told.get("stream", False), bool | None):
        raise invalid_request("stream: it is true or false")
    _check_members(told, cast("list[object]", messages))
    return told


def _check_members(told: dict[str, Any], messages: list[object]) -> None:
    """Refuse what no protocol has, and what could not be turned into another one's words."""
    for name in ("tools", "functions"):
        if not _are_objects(told.get(name) or []):
            raise invalid_request(f"{name}: it is a list of objects")
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise invalid_request(f"messages.{place}: it is an object with role and content")
        content = cast("dict[str, object]", message).get("content")
        if isinstance(content, list) and not _have_types(cast("list[object]", content)):
            raise invalid_request(f"messages.{place}.content: its parts are objects with a type")


def _are_objects(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    return all(isinstance(each, dict) for each in listed)


def _have_types(parts: list[object]) -> bool:
    return all(isinstance(each, dict) and "type" in each for each in parts)


def _mode(request: Request, desk: Desk, asked: GatewayRequest) -> Mode:
    """Return what the caller sees of calls that are taken up: as he says, a callback, the file."""
    named = request.headers.get(STREAMING)
    if named is not None and named not in MODES:
        modes = ", ".join(MODES)
        raise invalid_request(f"{STREAMING}: it is one of {modes}, not {named[:50]!r}")
    if is_agent(asked):
        # Its calls are never the caller's to answer.
        return Mode.HOLD if named == Mode.HOLD else Mode.MERGED
    watch = desk.office.watch
    if not watch.looks_at(asked):
        return Mode.COMPATIBLE
    if named is not None:
        return Mode(named)
    return Mode.HOLD if watch.holds(asked) else watch.settings.streaming


def _run_of(desk: Desk, asked: GatewayRequest) -> NewRun:
    if is_agent(asked):
        return agent_run(desk.office.app, asked)
    if asked.model not in configured_models():
        agents = (f"{AGENT}{name}" for name in desk.office.app.agents)
        raise UnknownModel(asked.model, [*configured_models(), *agents])
    return NewRun(
        agent=GATEWAY,
        messages=[asked.message()],
        metadata={"surface": asked.surface.value, "model": asked.model},
        patience=max(desk.office.watch.settings.wait * 2, timedelta(minutes=1)),
        content_retention=CONTENT_KEPT,
    )
