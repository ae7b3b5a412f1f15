"""How a round ends, and what is said of it in the run's log."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from loops.blocks import Raw
from loops.events import Custom


class Surface(StrEnum):
    """The protocols that callers speak."""

    MESSAGES = "messages"
    """Anthropic's Messages."""
    CHAT = "chat"
    """OpenAI's Chat Completions."""


class Mode(StrEnum):
    """What a caller sees of a call that is taken up by a callback."""

    COMPATIBLE = "compatible"
    """Each round as it comes: in a stream, a message of its own; else the last one alone."""
    MERGED = "merged"
    """The text of all rounds in one message, without the calls that were taken up."""
    HOLD = "hold"
    """The last round alone; nothing of the others."""


class Outcome(StrEnum):
    """What becomes of a call after a round."""

    FINAL = "final"
    """The round's reply is the answer."""
    AGAIN = "again"
    """Another round follows; its reply takes this one's place."""
    CLOSED = "closed"
    """The round's reply without the calls that were taken up is the answer."""
    GIVEN = "given"
    """The round's reply is the answer as it stands, whatever came before it."""
    CUT = "cut"
    """The provider broke off in the middle; what it said last was a failure."""


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """The end of a round."""

    outcome: Outcome
    claimed: frozenset[int] = frozenset()
    """The calls that were taken up: the places of their blocks in the message's content, or in the
    `tool_calls` of a chat completion, from 0."""

    def event(self) -> Custom:
        """Return what stands in the log."""
        return Custom(
            ROUND, {"type": ROUND, "outcome": self.outcome.value, "claimed": sorted(self.claimed)}
        )


@dataclass(frozen=True, slots=True)
class Round:
    """A round that is over."""

    body: Raw
    """Its whole reply, as a plain body of the surface."""
    end: RoundEnd


ROUND = "round"
"""The name of the event that ends a round."""


def round_end_of(event: object) -> RoundEnd | None:
    """Return the end of a round that the event is; None for any other."""
    if not isinstance(event, Custom) or event.name != ROUND:
        return None
    told: Mapping[str, Any] = event.value
    return RoundEnd(Outcome(told["outcome"]), frozenset(told["claimed"]))
