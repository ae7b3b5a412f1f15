"""What a run asks the outside at a hook, and what it is answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from .events import HookEvent
from .jsonable import jsonable
from .messages import ToolCall

EXPIRY = timedelta(days=7)
"""How long a hook stays open that names no limit of its own: one without a limit does not exist."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a run asks the outside."""

    label: str
    """The name by which it is answered; one at a time in a run."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer."""
    check: Callable[[Any], object]
    """Raises what is wrong with an answer; stands where the run is, and is never stored."""
    metadata: Mapping[str, Any] | None = None
    expires: timedelta = EXPIRY
    call: ToolCall | None = None
    """The call that waits for the answer, where it is one."""
    hides: bool | Sequence[str] = False
    """What of the arguments in the answer to an approval nobody is shown."""
    bound_to: str = ""
    """What the answer is for besides its label: one that was given for something else is none."""

    def opened(self) -> HookEvent:
        """Return the event that asks."""
        return HookEvent(
            self.label,
            "opened",
            payload=dict(self.schema),
            metadata=None if self.metadata is None else jsonable(dict(self.metadata)),
            expires_at=(datetime.now(UTC) + self.expires).isoformat(timespec="seconds"),
            call=None if self.call is None else self.call.key,
            turn=None if self.call is None else self.call.number,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """How a hook was closed."""

    status: Literal["resolved", "expired", "cancelled", "deferred"]
    """Deferred is one whose run ends with the question, to be gone on with by another run."""
    data: Any = None
    """What was answered, as JSON."""
    reason: str | None = None
    error: BaseException | None = None
    """What is raised where the answer is awaited; in one process only."""

    def event(self, question: Question) -> HookEvent | None:
        """Return the event that tells the answer; None where none is told."""
        if self.status == "deferred" or self.error is not None:
            return None
        call = question.call
        return HookEvent(
            question.label,
            self.status,
            resolution=self.data,
            call=None if call is None else call.key,
            turn=None if call is None else call.number,
        )

    def encode(self) -> bytes:
        """Return the answer as JSON."""
        return orjson.dumps({"status": self.status, "data": self.data, "reason": self.reason})

    @classmethod
    def decode(cls, encoded: bytes) -> "Answer":
        """Return the answer of its JSON; fields that a newer writer added are ignored."""
        told: Mapping[str, Any] = orjson.loads(encoded)
        return cls(told["status"], told.get("data"), told.get("reason"))
