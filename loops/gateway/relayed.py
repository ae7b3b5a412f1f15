"""What is asked of a gateway's model, as a request's `params` say it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loops.blocks import Raw

from .asked import Operation


@dataclass(frozen=True, slots=True)
class Relayed:
    """A caller's request, on its way to a model."""

    body: Raw
    """As the caller says it, in his protocol."""
    headers: Mapping[str, str]
    """His, by names in lower case."""
    streams: bool
    """Whether the reply comes as the rows of a stream; else it is one row, its body."""
    is_live: bool
    """Whether somebody sees the rows as they come: what fails after one is a row itself."""
    operation: Operation

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Relayed":
        """Return what the params say; what they leave out is as a plain request has it."""
        return cls(
            params["body"],
            params.get("headers") or {},
            params.get("streams", False),
            params.get("is_live", False),
            params.get("operation", "create"),
        )
