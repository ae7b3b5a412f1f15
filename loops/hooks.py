"""Hooks: a run asks the outside, and waits for the answer as long as it takes.

On workers a run that waits holds nothing of any worker; it is answered over HTTP, by whoever may.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from .errors import HookDeferred, HookExpired, SetupError
from .events import HookEvent
from .hook_registry import HookRegistry, get_hook_registry
from .messages import ToolCall
from .question import EXPIRY, Answer, Question
from .runtime import Runtime, current_scope
from .time_limit import outside
from .tool_context import running_call

Payload = TypeVar("Payload", bound=BaseModel)

LABEL_LIMIT = 200
"""How many characters a label may have."""


async def hook(
    hook: str | HookEvent,
    *,
    payload: type[Payload],
    metadata: Mapping[str, Any] | None = None,
    expires: timedelta = EXPIRY,
    tool_call_id: str | None = None,
    registry: HookRegistry | None = None,
) -> Payload:
    """Ask the outside, and return the answer as the payload's type.

    Args:
        hook: The label by which it is answered; one at a time in a run.
        payload: The type of the answer. An answer that does not fit is refused, and the hook stays
            open.
        metadata: What whoever answers should know; JSON.
        expires: After how long nobody may answer any more.
        tool_call_id: The id of the call that waits for the answer, where it is one.
        registry: Where the hook is found; None for the run's own.

    Raises:
        HookExpired: When nobody answered in time.
        CancelledError: When somebody cancelled the hook.
        HookDeferred: When the answer will come to another run.
        DuplicateName: When a hook of this label is open.
        LookupError: Outside of a run.
    """
    label = label_of(hook)
    registry = get_hook_registry() if registry is None else registry
    call = None if tool_call_id is None else _call(tool_call_id)
    question = Question(
        label,
        payload.model_json_schema(),
        payload.model_validate,
        metadata=metadata,
        expires=expires,
        call=call,
    )
    return payload.model_validate(await answer_to(question, registry))


def _call(tool_call_id: str) -> ToolCall:
    running = running_call.get(None)
    if running is not None and tool_call_id in {running.id, running.key}:
        return running
    return ToolCall(tool_call_id, tool_call_id, "", "{}")


async def answer_to(
    question: Question, registry: HookRegistry, runtime: Runtime | None = None
) -> Any:
    """Return what the question is answered, as JSON; an answer that came before it is taken.

    Raises:
        HookExpired: When nobody answered in time.
        CancelledError: When somebody cancelled the hook.
        HookDeferred: When the answer will come to another run.
    """
    answer = registry.early(question.label)
    if answer is None:
        runtime = current_scope().runtime if runtime is None else runtime
        with outside():
            answer = await runtime.open_hook(question, registry)
    if answer.error is not None:
        raise answer.error
    match answer.status:
        case "resolved":
            return answer.data
        case "expired":
            raise HookExpired(f"nobody answered the hook {question.label!r} in time")
        case "cancelled":
            raise asyncio.CancelledError(
                answer.reason or f"the hook {question.label!r} was cancelled"
            )
        case "deferred":
            raise HookDeferred(question.label)


def resolve_hook(
    hook: str | HookEvent,
    data: BaseModel | Mapping[str, Any] | BaseException,
    *,
    payload: type[BaseModel] | None = None,
    registry: HookRegistry | None = None,
) -> None:
    """Answer a hook of this process; when none of the label is open, the next one gets the answer.

    Args:
        hook: The label, or the event that asked.
        data: The answer; an exception is raised where it is awaited.
        payload: The type to hold the answer against, before its hook is open.
        registry: Where the hook is found; None for the surrounding run's.

    Raises:
        ValidationError: When the answer does not fit; the hook stays open.
        AlreadySettled: When it was answered before.
        LookupError: Outside of a run, without a registry.
    """
    registry = get_hook_registry() if registry is None else registry
    label, answer = label_of(hook), _answer(data, payload)
    if not registry.settle(label, answer):
        registry.keep(label, answer)


def _answer(data: object, payload: type[BaseModel] | None) -> Answer:
    match data:
        case HookDeferred():
            return Answer("deferred")
        case BaseException():
            return Answer("cancelled", error=data)
        case BaseModel():
            return Answer("resolved", data.model_dump(mode="json"))
        case Mapping():
            told = dict(data)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if payload is not None:
                payload.model_validate(told)
            return Answer("resolved", told)
        case _:
            raise TypeError(
                f"a hook is answered with a model, a dict or an exception, not with {data!r}"
            )


def defer_hook(hook: str | HookEvent, *, registry: HookRegistry | None = None) -> None:
    """Let the run end with the question open; a run that goes on with its history is answered."""
    resolve_hook(hook, HookDeferred(label_of(hook)), registry=registry)


async def cancel_hook(
    hook: str | HookEvent, *, reason: str | None = None, registry: HookRegistry | None = None
) -> None:
    """Close a hook of this process without an answer: where it is awaited, that is cancelled.

    Raises:
        ValueError: When no hook of the label is open.
        LookupError: Outside of a run, without a registry.
    """
    registry = get_hook_registry() if registry is None else registry
    label = label_of(hook)
    if not registry.settle(label, Answer("cancelled", reason=reason)):
        raise ValueError(f"no hook labelled {label!r} is open")


def label_of(hook: str | HookEvent) -> str:
    """Return the label of a hook.

    Raises:
        SetupError: When it can be no label: it stands in addresses, and in lines of text.
    """
    label = hook.label if isinstance(hook, HookEvent) else hook
    if not label or len(label) > LABEL_LIMIT or not label.isprintable() or "/" in label:
        raise SetupError(
            f"a hook's label is a line of 1 to {LABEL_LIMIT} characters without '/', not {label!r}"
        )
    return label
