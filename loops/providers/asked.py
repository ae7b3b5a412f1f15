"""What all requests to providers share; pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from loops.blocks import Raw
from loops.errors import InvalidRequest
from loops.model import ModelRequest


def added(params: Mapping[str, Any], ours: Collection[str]) -> Raw:
    """Return the fields that the caller adds to a request; those of `extra_body` go before all."""
    extra: Mapping[str, Any] = params.get("extra_body") or {}
    passed = {name: value for name, value in params.items() if name not in {*ours, "extra_body"}}
    return {**passed, **extra}


def added_tools(params: Mapping[str, Any]) -> list[Raw]:
    """Return copies of the tools that the caller has the vendor offer beside ours."""
    tools: Sequence[Mapping[str, Any]] = params.get("tools") or ()
    return [dict(tool) for tool in tools]


def refuse_empty(request: ModelRequest, messages: Sequence[Raw]) -> None:
    """Pass if there is something to answer.

    Raises:
        InvalidRequest: When no message says anything: no service takes such a request.
    """
    if not messages:
        raise InvalidRequest(
            f"the model {request.model!r} was asked without a message that says anything; "
            "give the run an input"
        )
