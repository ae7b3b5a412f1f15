"""Sum up the older part of a history by a model, so that the newer part has room to grow.

Whatever the model does, the history gets shorter: where it gives no summary, a sentence says that
the earlier conversation was dropped.
"""

import logging
from asyncio import timeout
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from loops.blocks import Raw
from loops.closing import closing
from loops.errors import ContextTooLong, Incomplete, Refused, Timeout
from loops.guard import Raised, outcome_of

from .cutting import cut, fitting
from .estimate import tokens_of
from .ledger import HEADING, ledger
from .marker import head_length, head_of
from .provider import Provider
from .stubs import stubbed
from .summing import ASK, LEFT_OUT, SYSTEM, extracted, questioned
from .turn import Turn

SUMMARY_LIMIT = timedelta(minutes=5)
"""How long a model may take to sum up."""

LEAST_GAIN = 0.05
"""The share of its tokens that a compaction must save to be one."""

SMALL = 2_000
"""A history of fewer tokens is summed up all the same: any summary is about as long as it."""

CONTINUED = "This session goes on from an earlier conversation that no longer fits into your view."
"""What the message begins with that stands for what is summed up."""

DROPPED = (
    "The earlier conversation could not be summarised and was dropped: look again, or ask the user,"
    " for what you need of it."
)
"""What stands in the place of a summary when there is none."""

STILL_KNOWN = "Of what came long before, this summary is left:"
"""What an older summary is told with, where the newer one failed."""

logger = logging.getLogger("loopmill.kit")


@dataclass(frozen=True)
class Summary:
    """What came of asking a model to sum up."""

    text: str | None
    """The summary alone; None when there is none."""
    failure: str | None = None
    """Why there is no summary, in one line."""
    turn: Turn | None = None
    """The reply, which has cost tokens also where no summary came of it."""


@dataclass
class _Reply:
    texts: list[str] = field(default_factory=list[str])
    turn: Turn | None = None

    @property
    def whole(self) -> str:
        """All text; that of the turn where it has some, for a stream may have begun anew."""
        return (self.turn.text if self.turn else "") or "".join(self.texts)


async def compact(
    provider: Provider,
    messages: Sequence[Raw],
    keep: int,
    max_tokens: int,
    request: Mapping[str, Any] | None = None,
    *,
    window: int | None = None,
) -> list[Raw]:
    """Return a shorter history: a summary, an acknowledgement, and the newest messages as they are.

    The first two are internal. What the summariser raises is logged, and the summary is then the
    sentence that the earlier conversation was dropped. Where nothing is gained, since all that is
    long must be kept, the messages come back as they are: `is_smaller` tells.

    Args:
        provider: The model that sums up.
        messages: What the model is shown, oldest first; it may begin with an earlier summary.
        keep: How many tokens of the newest messages are kept word for word, about.
        max_tokens: How long the summary may be.
        request: What the loop asks the model with, beside messages: system, tools, and so on.
            A model that is asked with the same again finds the conversation in its cache.
        window: How many tokens the model can be shown at once, if that is known.

    Raises:
        CancelledError: When the task was cancelled from outside.
        RunLeft: When the provider belongs to a run that this pass owns no more.
    """
    border = cut(messages, keep, head_length(messages))
    if border is None:
        return list(messages)
    old, recent = messages[:border], messages[border:]
    if not _is_gain([*head_of(CONTINUED), *recent], messages):
        return list(messages)
    summary = await summarise(provider, old, max_tokens=max_tokens, request=request, window=window)
    compacted = [*head_of(told(summary, old)), *recent]
    return compacted if _is_gain(compacted, messages) else list(messages)


async def summarise(
    provider: Provider,
    old: Sequence[Raw],
    *,
    max_tokens: int,
    request: Mapping[str, Any] | None = None,
    limit: timedelta = SUMMARY_LIMIT,
    window: int | None = None,
) -> Summary:
    """Ask the model to sum up the old part of a history; whatever goes wrong is told, not raised.

    Args:
        provider: The model that sums up.
        old: The messages to sum up, which part no call from its result.
        max_tokens: How long the summary may be.
        request: The keywords of the provider's `stream` but for the messages.
        limit: How long it may take.
        window: How many tokens the model can be shown; what does not fit is shown in stubs or not.

    Raises:
        CancelledError: When the task was cancelled from outside.
        RunLeft: When the provider belongs to a run that this pass owns no more.
    """
    keywords: dict[str, Any] = {"system": SYSTEM, "tools": [], **(request or {})}
    keywords["max_tokens"] = max_tokens
    reply = _Reply()

    async def ask() -> str:
        shown = old if window is None else _fitted(old, window - max_tokens - _asking(keywords))
        await _read(provider, {**keywords, "messages": questioned(shown)}, limit, reply)
        return _summary_of(reply)

    outcome = await outcome_of(ask)
    if isinstance(outcome, Raised):
        logger.warning("! the earlier conversation is not summed up: %s", outcome.text)
        return Summary(None, outcome.text, reply.turn)
    return Summary(outcome, None, reply.turn)


def told(summary: Summary, old: Sequence[Raw]) -> str:
    """Return the text that stands for the old part: what it is, the summary, the files touched.

    The files of an earlier summary at the beginning of the old part are taken over; so is the whole
    of that summary where there is no newer one.
    """
    before = str(old[0].get("content")) if head_length(old) else ""
    words = [summary.text] if summary.text else [DROPPED, *_still_known(before)]
    return "\n\n".join(part for part in (CONTINUED, *words, ledger(old, before)) if part)


def is_smaller(compacted: Sequence[Raw], messages: Sequence[Raw]) -> bool:
    """Say whether a compaction gained something that is worth a model's time.

    Of a history that is short anyway it is enough that it has fewer messages.
    """
    before = tokens_of(messages)
    if before < SMALL and len(compacted) < len(messages):
        return True
    return tokens_of(compacted) < before * (1 - LEAST_GAIN)


def _still_known(before: str) -> list[str]:
    """Return an earlier summary without what was told around it."""
    for words in (CONTINUED, DROPPED, STILL_KNOWN):
        before = before.replace(words, "")
    lines = (line for line in before.split("\n") if not line.startswith(HEADING))
    known = "\n".join(lines).strip()
    return [STILL_KNOWN, known] if known else []


def _is_gain(compacted: Sequence[Raw], messages: Sequence[Raw]) -> bool:
    return tokens_of(messages) < SMALL or is_smaller(compacted, messages)


def _asking(keywords: Mapping[str, Any]) -> int:
    """Return what a request takes beside the conversation."""
    ours = [{"role": "user", "content": text} for text in (LEFT_OUT, ASK)]
    return tokens_of(ours) + sum(tokens_of(keywords[name] or "") for name in ("system", "tools"))


def _fitted(old: Sequence[Raw], room: int) -> Sequence[Raw]:
    """Return what fits of the old part: all, or all in stubs, or an earlier summary and the end."""
    if tokens_of(old) <= room:
        return old
    shorter = stubbed(old)
    if (sent := tokens_of(shorter)) <= room:
        return shorter
    head, rest = shorter[: head_length(shorter)], shorter[head_length(shorter) :]
    newest = rest[fitting(rest, room - tokens_of(head)) :]
    if not newest:
        raise ContextTooLong("not even its last part can be shown whole", limit=room, sent=sent)
    return [*head, *newest]


async def _read(
    provider: Provider, asked: Mapping[str, Any], limit: timedelta, reply: _Reply
) -> None:
    scope = timeout(limit.total_seconds())
    try:
        async with scope:
            stream = provider.stream(**asked)
            async with closing(stream):
                async for each in stream:
                    if isinstance(each, str):
                        reply.texts.append(each)
                    elif isinstance(each, Turn):
                        reply.turn = each
    except TimeoutError as error:
        if scope.expired():
            raise Timeout(f"it took longer than {limit}") from error
        raise


def _summary_of(reply: _Reply) -> str:
    """Return the summary in a reply.

    Raises:
        Incomplete: When there is none.
        Refused: When the model declined to give one.
    """
    whole = reply.whole
    if reply.turn is not None and reply.turn.stop_reason == "refusal":
        raise Refused("the model declined to sum up")
    if reply.turn is not None and reply.turn.calls and "<summary>" not in whole:
        raise Incomplete("the model called tools where it was to sum up")
    text = extracted(whole)
    if not text:
        raise Incomplete("the model gave no text where it was to sum up")
    return text
