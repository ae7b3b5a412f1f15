"""A callback's plan: built once, within a limit of time, and kept as JSON.

A plan is a unit of the run: one that is recorded is never built again. One that was begun when its
worker died is not built again either, since nobody knows what it has done by then.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from loops.blocks import Raw
from loops.errors import LoopFailed, RunError
from loops.guard import Raised, describe
from loops.jsonable import cut_text, strictly_jsonable
from loops.runtime import Runtime
from loops.tasks import to_its_end

from .answer import Answer
from .call import Call
from .claims import Claim, Reply
from .custom_logger import AgenticLoopPlan
from .in_time import outcome_within
from .methods import BUILDER, CHAT_BUILDER, CHAT_LEGACY, LEGACY, name_of, overrides
from .rounds import Surface

BUILDERS = {
    Surface.MESSAGES: (BUILDER, LEGACY),
    Surface.CHAT: (CHAT_BUILDER, BUILDER, CHAT_LEGACY, LEGACY),
}
"""What may answer a claim on a surface: the first that a callback has."""


class PlanLost(RunError):  # noqa: N818 - the name says what happened, as those of the tree do
    """The worker that built a plan was lost, and what it has done is not known."""


class CallbackFailed(RunError):  # noqa: N818 - the name says what happened
    """A callback raised, took too long, or gave what is no plan; the cause is its error."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a builder is called with."""

    call: Call
    reply: Reply
    claim: Claim

    def arguments(self, builder: str) -> dict[str, Any]:
        """Return the keyword arguments of the builder, as its signature names them."""
        call, reply = self.call, self.reply
        common: dict[str, Any] = {
            "tools": self.claim.told,
            "model": reply.model_name,
            "messages": call.messages(),
            "response": Answer(reply.body, call.surface),
            "logging_obj": call.logging(reply.model),
            "stream": call.asked.streams,
            "kwargs": call.told(reply.vendor),
        }
        if builder in {CHAT_BUILDER, CHAT_LEGACY}:
            return {**common, "optional_params": call.optional_params}
        return {
            **common,
            "anthropic_messages_provider_config": None,
            "anthropic_messages_optional_request_params": call.optional_params,
        }


async def plan_of(runtime: Runtime, built: Built, limit: timedelta) -> AgenticLoopPlan:
    """Return the plan of the callback that has taken calls up; an empty one where it has none.

    Raises:
        CallbackFailed: When the builder raises, takes longer than the limit, or gives no plan.
        PlanLost: When a worker died while it was built.
    """
    claim, call = built.claim, built.call
    own = (each for each in BUILDERS[call.surface] if overrides(claim.callback, each))
    builder = next(own, None)
    if builder is None:
        return AgenticLoopPlan()
    name = f"plan:{call.depth}:{claim.place}:{name_of(claim.callback)}"
    kept = await once(runtime, name, partial(_told, built, builder, limit))
    return AgenticLoopPlan.model_validate(kept)


async def once(runtime: Runtime, name: str, give: Callable[[], Awaitable[Raw]]) -> Raw:
    """Return what the function gives, which is called once at most, whatever becomes of workers.

    What has begun is brought to its end and recorded, also when the run is cancelled meanwhile.

    Raises:
        PlanLost: When a worker died while it was called.
    """
    is_ours = False

    def begin() -> bool:
        nonlocal is_ours
        is_ours = True
        return True

    async def given() -> Raw:
        if not is_ours:
            raise PlanLost(
                f"the worker that was busy with {name!r} was lost; what it has done is not known, "
                "and it is not done again"
            )
        return await give()

    await runtime.note(name, begin)
    return await to_its_end(runtime.step(name, given), name=name)


async def _told(built: Built, builder: str, limit: timedelta) -> Raw:
    claim = built.claim
    where = f"{name_of(claim.callback)}.{builder}"
    method = getattr(claim.callback, builder)
    answer = await within(limit, partial(method, **built.arguments(builder)), where)
    if builder in {LEGACY, CHAT_LEGACY}:
        answer = AgenticLoopPlan(response_override=answer)
    return kept_plan(answer, where)


async def within(limit: timedelta, method: Callable[[], Awaitable[Any]], where: str) -> Any:
    """Return what a callback's method gives.

    Raises:
        CallbackFailed: When it raises, or takes longer than the limit.
    """
    answer = await outcome_within(limit, method)
    if isinstance(answer, Raised):
        if isinstance(answer.error, TimeoutError) and not str(answer.error):
            seconds = limit.total_seconds()
            raise CallbackFailed(f"{where} took longer than {seconds:g} s") from answer.error
        raise CallbackFailed(f"{where} raised {describe(answer.error)}") from answer.error
    return answer


def kept_plan(plan: object, where: str) -> Raw:
    """Return the plan as JSON keeps it; the original library's own is as good as ours.

    Raises:
        CallbackFailed: When it is none, or holds what JSON cannot keep.
    """
    told = fields_of(plan)
    if told is None or "run_agentic_loop" not in told:
        shown = cut_text(repr(plan), 100)
        raise CallbackFailed(f"{where} gave {shown}, which is no plan; return an AgenticLoopPlan")
    try:
        known = {name: told[name] for name in AgenticLoopPlan.model_fields if name in told}
        kept: Raw = strictly_jsonable(_without_objects(known))
        AgenticLoopPlan.model_validate(kept)
    except (TypeError, ValidationError) as error:
        raise CallbackFailed(f"{where} gave a plan that cannot be kept: {error}") from error
    return kept


def fields_of(value: object) -> Raw | None:
    """Return the members of a dict, or of an object of pydantic's; None for anything else."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def _without_objects(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.model_dump()
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: _without_objects(each) for name, each in members.items()}
    if isinstance(value, list | tuple):
        return [_without_objects(each) for each in cast("list[Any]", value)]
    return value


def refuse_without_messages(plan: AgenticLoopPlan, callback: object) -> list[Raw]:
    """Return the messages that a plan has the model asked with.

    Raises:
        LoopFailed: When it has none.
    """
    patch = plan.request_patch
    if patch is None or patch.messages is None:
        raise LoopFailed(
            f"the plan of {name_of(callback)} has the model asked again, and its patch has no "
            "messages; give AgenticLoopRequestPatch(messages=…)"
        )
    return patch.messages
