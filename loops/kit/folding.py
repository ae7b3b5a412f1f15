"""Make room before the window is full: first by clearing old results, then by a summary."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from loops.errors import ContextTooLong

from .beating import waiting
from .compact import Summary
from .events import callout, step
from .kit_run import KitRun
from .rows import log

CLEAR_AT_LEAST = 0.25
"""The share of the window that clearing must free."""

CLEAR_COLD = 0.1
"""The same when the provider has forgotten the conversation: it is read anew in any case."""

COLD_AFTER = timedelta(minutes=20)
"""After how long a provider has forgotten a conversation."""

TRIES = 3
"""How often earlier messages are put together before one request."""

SUMMARIZING = "Summarizing earlier messages to keep this chat going..."


async def fold(run: KitRun) -> AsyncIterator[Any]:
    """Make room if it is time to; yield what the reader is shown of it."""
    if run.tokens <= run.trigger or not run.can_fold:
        return
    tokens = run.tokens
    if await run.session.clear(run.keep, int(run.window * CLEAR_AT_LEAST)):
        run.measure()
        yield _compacted(run, 1, "trigger", tokens)
    else:
        async for shown in run.nest(_summed_up(run, "trigger", run.keep)):
            yield shown


async def recover(run: KitRun, error: ContextTooLong | None) -> AsyncIterator[Any]:
    """Make room since the model has refused the request, or has not found room for a reply.

    Raises:
        ContextTooLong: When nothing is left that could be put together.
    """
    if error is not None and error.limit:
        run.window = min(run.window, error.limit)
        await run.session.learn(run.window, run.provider.model)
    keep = run.keep
    for _ in range(TRIES):
        if not run.can_fold:
            break
        async for shown in run.nest(_summed_up(run, "overflow", keep)):
            yield shown
        if run.tokens <= run.window:
            return
        keep //= 2
    if run.tokens > run.window:
        raise too_long(run, error)


def too_long(run: KitRun, error: ContextTooLong | None) -> ContextTooLong:
    """Return the error of a request that no summary makes shorter."""
    return ContextTooLong(
        f"the request has about {run.tokens} tokens, and the window of {run.provider.model!r} "
        f"{run.window}: its newest messages, its system prompt or its tools alone are too long; "
        "make them shorter, or give the loop a model with a larger window",
        limit=run.window,
        sent=error.sent if error is not None else run.tokens,
    )


async def clear_when_cold(run: KitRun) -> AsyncIterator[Any]:
    """Clear old results when the provider has to read everything anew."""
    if not any(message.get("usage") for message in run.session.messages):
        return
    if await run.idle() <= COLD_AFTER:
        return
    tokens = run.tokens
    if await run.session.clear(run.keep, int(run.window * CLEAR_COLD)):
        run.measure()
        yield _compacted(run, 1, "cold", tokens)


async def _summed_up(run: KitRun, reason: str, keep: int) -> AsyncIterator[Any]:
    tokens = run.tokens
    yield step(SUMMARIZING)
    # In a window that is smaller than a reply may be there has to be room for what is summed up.
    most = max(1, min(run.options.output, run.window // 4))
    work = run.session.compact(run.provider, keep, most, run.standing_request(), window=run.window)
    summary: Summary | None = None
    async for beat in run.nest(waiting(work, run.options.heartbeat)):
        if isinstance(beat, dict):
            yield beat
        else:
            summary = beat
    if summary is not None and summary.turn is not None:
        run.spend(summary.turn, {"compact": True})
    is_ok = summary is not None and summary.failure is None
    run.measure()
    yield _compacted(run, 2, reason, tokens, is_ok=is_ok)
    if summary is not None and summary.failure is not None:
        yield callout(
            "Earlier messages could not be summarized, and the model does not see them any more.",
            "warning",
        )


def _compacted(
    run: KitRun, tier: int, reason: str, tokens: int, *, is_ok: bool = True
) -> dict[str, Any]:
    log(
        run.context,
        "compaction",
        {"tier": tier, "reason": reason, "tokens": tokens, "left": run.tokens, "ok": is_ok},
    )
    return {
        "type": "ui",
        "action": "compacted",
        "tier": tier,
        "reason": reason,
        "tokens": tokens,
        "ok": is_ok,
    }
