"""A caller's request, as it goes from the API to the worker."""

from dataclasses import dataclass, field
from typing import Any, Literal

from loops.blocks import Raw
from loops.context import Context

from .rounds import Mode, Surface

BLOCK = "gateway_request"
"""The type of the one block that a gateway run has as its input."""

PASSED_ON = ("anthropic-beta", "anthropic-version")
"""The caller's headers that go on to a provider of his protocol."""

Operation = Literal["create", "count_tokens"]


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """What is asked, by whom, and how the answer is to come."""

    surface: Surface
    body: Raw
    """As the caller sent it, without what is not his to say."""
    mode: Mode = Mode.COMPATIBLE
    operation: Operation = "create"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """What of his headers goes on to a provider of the same protocol, by names in lower case."""
    tenant: str = "default"
    key_id: str = ""
    """A name for the caller's key that tells nothing of it."""

    @property
    def streams(self) -> bool:
        """Whether the caller wants the answer as it comes."""
        return self.operation == "create" and self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The name under which the caller asks for a model."""
        return str(self.body.get("model", ""))

    def message(self) -> Raw:
        """Return the request as the input of a run."""
        block: dict[str, Any] = {
            "type": BLOCK,
            "surface": self.surface.value,
            "body": self.body,
            "mode": self.mode.value,
            "operation": self.operation,
            "headers": self.headers,
            "tenant": self.tenant,
            "key_id": self.key_id,
        }
        return {"role": "user", "content": [block]}


def request_of(context: Context) -> GatewayRequest:
    """Return the request that a run has as its input."""
    told = context.messages[-1].content[0].raw()
    return GatewayRequest(
        Surface(told["surface"]),
        told["body"],
        Mode(told["mode"]),
        told["operation"],
        told["headers"],
        told["tenant"],
        told["key_id"],
    )
