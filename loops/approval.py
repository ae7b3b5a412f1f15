"""Approvals: a call that a person has to grant before it is carried out.

An approval is a hook. It is for the arguments that were shown, and for no others; it may replace
them; and it is given once.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, cast

import orjson
from pydantic import BaseModel, Field

from .errors import HookDeferred, HookExpired, InvalidArguments
from .guard import Raised, outcome_of
from .hook_registry import HookRegistry, active_registry
from .hooks import answer_to
from .jsonable import jsonable
from .messages import ToolCall, ToolResult
from .question import Question
from .redact import HIDDEN, hidden, unhidden
from .runtime import Runtime
from .tool_context import ToolContext
from .tools import Tool


class ToolApproval(BaseModel):
    """What a person says of a call."""

    granted: bool
    reason: str | None = Field(None, description="Why not; the model is told.")
    arguments: dict[str, Any] | None = Field(
        None, description="What the tool is called with instead of what the model wrote."
    )


async def approved(call: ToolCall, tool: Tool, runtime: Runtime) -> ToolCall | ToolResult:
    """Return the call as it is granted, or the result that tells the model that it is not.

    A call whose arguments do not fit is nobody's to grant: its result will tell the model so.
    """
    try:
        arguments = call.parsed()
        if not tool.wants_approval(arguments):
            return call
    except InvalidArguments:
        return call
    registry = active_registry() or HookRegistry()
    question = _question(call, tool, arguments, registry)
    outcome = await outcome_of(partial(answer_to, question, registry, runtime))
    if isinstance(outcome, Raised):
        return _unanswered(call, outcome.error)
    given = ToolApproval.model_validate(outcome)
    if not given.granted:
        return _refusal(call, given.reason or "a person did not approve the call")
    if given.arguments is None:
        return replace(call, granted=True)
    edited = unhidden(given.arguments, arguments)
    return replace(call, arguments=orjson.dumps(edited).decode(), granted=True)


def label_of(call: ToolCall, is_taken: Callable[[str], bool]) -> str:
    """Return the label of the hook by which a call is approved: no two calls of a run share one.

    Providers repeat ids, in one message and from turn to turn.
    """
    label = f"approve_{call.id or call.key}"
    return f"approve_{call.key}" if is_taken(label) else label


def approval_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the key of a call: the same for the same arguments.

    What only says why a command is run is no part of it.
    """
    only_told = {"description"} if tool == "bash" else frozenset[str]()
    told = {name: value for name, value in arguments.items() if name not in only_told}
    encoded = orjson.dumps(jsonable(told), option=orjson.OPT_SORT_KEYS)
    return f"{tool}:{sha256(encoded).hexdigest()[:32]}"


def card_key(tool: str, shown: Mapping[str, Any], call: str | None) -> str:
    """Return the key of a call as its card shows it.

    Where arguments are hidden it is the call's alone: from a hash of them they could be guessed.
    """
    if HIDDEN not in shown.values():
        return approval_key(tool, shown)
    return f"{tool}:{sha256((call or '').encode()).hexdigest()[:32]}"


def acting_on(call: ToolCall, context: ToolContext) -> ToolContext:
    """Return what the call's tool may know: the call, and that a person has granted it."""
    own = frozenset({approval_key(call.name, call.parsed())} if call.granted else ())
    return replace(context, call=call, approvals=context.approvals | own)


def _question(
    call: ToolCall, tool: Tool, arguments: Mapping[str, Any], registry: HookRegistry
) -> Question:
    label = label_of(call, registry.is_taken)
    told = cast("dict[str, Any]", jsonable(dict(arguments)))
    shown = hidden(told, tool.redact)

    def check(answer: Any) -> None:
        given = ToolApproval.model_validate(answer)
        if given.granted and given.arguments is not None:
            tool.validated(unhidden(given.arguments, arguments))

    return Question(
        label,
        _schema(tool),
        check,
        metadata={"tool": tool.name, "kwargs": shown},
        call=call,
        hides=tool.redact,
        bound_to=tool.name + orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode(),
    )


def _schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of an approval, with that of the tool's own arguments in it."""
    schema = ToolApproval.model_json_schema()
    own = dict(tool.schema)
    # What the tool's schema refers to stands at the root.
    definitions = own.pop("$defs", None)
    schema["properties"]["arguments"]["anyOf"] = [own, {"type": "null"}]
    return {**schema, "$defs": definitions} if definitions else schema


def _unanswered(call: ToolCall, error: BaseException) -> ToolResult:
    match error:
        case HookExpired():
            return _refusal(call, "nobody approved the call in time")
        case HookDeferred():
            deferred = ToolResult(call.key, call.id, call.name, str(error), is_error=True)
            return replace(deferred, deferred=error.label)
        case asyncio.CancelledError():
            return _refusal(call, f"the approval was cancelled: {error}")
        case _:
            raise error


def _refusal(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.key, call.id, call.name, f"Rejected: {text}", is_error=True)
