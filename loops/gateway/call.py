"""A caller's call on its way through the rounds, and what callbacks are told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from loops.blocks import Raw

from .asked import GatewayRequest
from .rounds import Surface

MOST_LOOPS = 3
"""How often a model is asked again for one call, unless somebody says otherwise."""

KINDS = {Surface.MESSAGES: "anthropic_messages", Surface.CHAT: "chat_completions"}
"""What a surface is called in a callback's `kwargs`."""

OURS = frozenset(
    {
        "_agentic_loop_api_surface",
        "_agentic_loop_depth",
        "_agentic_loop_fingerprints",
        "custom_llm_provider",
        "litellm_call_id",
        "litellm_logging_obj",
        "litellm_metadata",
        "max_agentic_loops",
        "model_info",
        "proxy_server_request",
    }
)
"""What of `kwargs` is ours to say in each round, and no field of a body."""


def is_inner(name: str) -> bool:
    """Say whether a name is one that callbacks tell each other, and no field of a body."""
    return name.startswith(("_", "litellm_"))


@dataclass(frozen=True, slots=True)
class Call:
    """Where a call stands."""

    asked: GatewayRequest
    """As the caller sent it."""
    id: str
    """The run's id."""
    body: Raw
    """What the model is asked in this round."""
    limit: int | None = None
    """How often the model may be asked again, where somebody has said it for this call."""
    depth: int = 0
    """How often the model was asked again so far."""
    fingerprints: tuple[str, ...] = ()
    """Of the calls that were taken up so far."""
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What callbacks have put there for those after them."""

    @property
    def most_loops(self) -> int:
        """How often the model may be asked again."""
        return self.limit or MOST_LOOPS

    @property
    def surface(self) -> Surface:
        """The protocol that the caller speaks."""
        return self.asked.surface

    @property
    def optional_params(self) -> Raw:
        """The body but for the model and the messages; a copy."""
        told = {k: v for k, v in self.body.items() if k not in {"model", "messages"}}
        params: Raw = copied(told)
        return params

    def messages(self) -> list[Raw]:
        """Return a copy of the messages of this round."""
        messages: list[Raw] = copied(self.body.get("messages") or [])
        return messages

    def told(self, vendor: str) -> dict[str, Any]:
        """Return the `kwargs` of a callback's method; no key and no address is among them."""
        asked = self.asked
        return {
            **copied(self.kwargs),
            "_agentic_loop_api_surface": KINDS[self.surface],
            "_agentic_loop_depth": self.depth,
            "_agentic_loop_fingerprints": list(self.fingerprints),
            "max_agentic_loops": self.most_loops,
            "custom_llm_provider": vendor,
            "litellm_call_id": self.id,
            "litellm_metadata": {"user_api_key_hash": asked.key_id, "user_api_key": asked.key_id},
            "model_info": {},
            "proxy_server_request": {"body": copied(asked.body), "headers": {}},
        }

    def logging(self, model: str) -> SimpleNamespace:
        """Return what stands in for the original library's logging object."""
        vendor = model.partition("/")[0]
        details = {
            "agentic_loop_params": {"model": model, "custom_llm_provider": vendor},
            "litellm_call_id": self.id,
            "model": model,
        }
        return SimpleNamespace(model_call_details=details, litellm_call_id=self.id)


def user_of(asked: GatewayRequest) -> SimpleNamespace:
    """Return what stands in for the original library's caller: a name for its key, no key."""
    return SimpleNamespace(
        api_key=asked.key_id, user_id=asked.tenant, team_id=None, end_user_id=None, metadata={}
    )


def copied(value: object) -> Any:
    """Return a copy of a body or of a part of one; five times as quick as a copy of anything."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {name: copied(each) for name, each in members.items()}
    if isinstance(value, list):
        return [copied(each) for each in cast("list[object]", value)]
    return value
