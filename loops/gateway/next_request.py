"""The request of the round that follows: what was asked, with what a plan changes; pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loops.blocks import Raw

from .call import OURS, Call, is_inner
from .claims import Claim, Reply
from .custom_logger import AgenticLoopPlan
from .limits import loops_in
from .methods import name_of
from .planning import refuse_without_messages
from .rounds import Surface
from .translating import cleaned_body, in_shape_of, with_thinking, without_forced_choice


def next_call(call: Call, reply: Reply, claim: Claim, plan: AgenticLoopPlan) -> Call:
    """Return where the call stands when the plan's round begins.

    What a patch names itself goes before its `optional_params`, these before its `kwargs`, and all
    of them before what was asked.

    Raises:
        LoopFailed: When the plan has no messages.
        ValueError: When it says how often the model may be asked, and that is no number above 0.
    """
    messages = refuse_without_messages(plan, claim.callback)
    patch = plan.request_patch
    assert patch is not None  # noqa: S101 - it has messages
    told = {name: value for name, value in patch.kwargs.items() if name not in OURS}
    body: Raw = {
        **call.body,
        **cleaned_body(told),
        **cleaned_body(patch.optional_params),
        **_named(call, patch.tools, patch.max_tokens),
    }
    body["model"] = _model(call, reply, patch.model)
    body["messages"] = with_thinking(in_shape_of(call.surface, messages), reply.body)
    body = _streaming_as(call.body, body)
    if body.get("tool_choice") == call.body.get("tool_choice"):
        body = without_forced_choice(call.surface, body)
    limit = loops_in(patch.kwargs, f"the plan of {name_of(claim.callback)}")
    return replace(
        call,
        body=body,
        depth=call.depth + 1,
        limit=limit or call.limit,
        fingerprints=(*call.fingerprints, claim.fingerprint),
        kwargs={**call.kwargs, **{k: v for k, v in told.items() if is_inner(k)}},
    )


def _named(call: Call, tools: list[Raw] | None, max_tokens: int | None) -> Raw:
    told: Raw = {}
    if tools is not None:
        told["tools"] = tools
    if max_tokens is not None:
        told[_limit_name(call.body, call.surface)] = max_tokens
    return told


def _limit_name(body: Mapping[str, Any], surface: Surface) -> str:
    newer = "max_completion_tokens"
    return newer if surface is Surface.CHAT and newer in body else "max_tokens"


def _model(call: Call, reply: Reply, named: str | None) -> Any:
    """Return the model's name in the configuration.

    A callback that hands back the name that it was told means the same model.
    """
    same = {reply.model, reply.model_name}
    return call.body.get("model") if named is None or named in same else named


def _streaming_as(asked: Raw, body: Raw) -> Raw:
    """Return the body that streams where the caller's does."""
    kept = {name: value for name, value in body.items() if name not in _STREAMING}
    return {**kept, **{name: asked[name] for name in _STREAMING if name in asked}}


_STREAMING = ("stream", "stream_options")
