"""The kit's default loop: asks, carries out, asks again, and keeps all of it."""

from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any

from loops.context import Context
from loops.errors import AgentError, BudgetExceeded, ContextTooLong, TurnLimitExceeded
from loops.guard import Raised, describe

from .batch import Batch, answer, not_begun
from .beating import told
from .deciding import CUT_OFF, GO_ON, STOPPED, Next, cut_results, decide
from .events import callout, reset, step
from .folding import clear_when_cold, fold, recover, too_long
from .kit_run import KitRun
from .nest import Nest
from .options import Options
from .replying import reply
from .rows import log
from .session import Session
from .sources import discovered
from .titles import title


async def default_loop(*, context: Context, **options: Any) -> AsyncIterator[Any]:
    """Answer what is said to the run; yields strings and dicts, never a `Turn`.

    Args:
        context: The run.
        options: See `Options`; what is not known there is passed over.

    Raises:
        SetupError: When there is no model, or none that can be reached.
        ProviderError: When the service fails for good.
        TurnLimitExceeded: When the run takes too many replies; `BudgetExceeded` when it costs too
            much.
    """
    nest = Nest()
    try:
        async for shown in nest(told(nest(_loop(context, Options.of(options), nest)))):
            if isinstance(shown, Raised):
                yield _failed(context, shown.error)
                raise shown.error
            yield shown
    finally:
        await nest.close()


def _failed(context: Context, error: BaseException) -> dict[str, Any]:
    """Return the word to the reader that the run fails; the details are not for everybody."""
    code = error.code if isinstance(error, AgentError) else "loop_failed"
    # A run that is resumed says the same again; one in this process has no id of its own.
    seed = f"{context.run or id(error)}:{context.turns}:{code}"
    reference = sha256(seed.encode()).hexdigest()[:8]
    log(context, "error", {"error_id": reference, "code": code, "message": describe(error)})
    if isinstance(error, TurnLimitExceeded | BudgetExceeded):
        # These are the program's own limits, and no secret.
        return {**callout(f"Stopped: {error}", "error"), "error_id": reference}
    text = f"Something went wrong ({code}). Reference: `{reference}`"
    return {**callout(text, "error"), "error_id": reference}


async def _loop(context: Context, options: Options, nest: Nest) -> AsyncIterator[Any]:
    run = KitRun(context, await Session.open(context), options, nest)
    try:
        for part in (_opening, _turns, fold, title):
            async for shown in nest(part(run)):
                yield shown
    finally:
        # A run that is cancelled while it keeps something has not kept it.
        if not run.session.is_kept:
            run.session.messages += not_begun(run.session.messages)
            await run.session.checkpoint()


async def _opening(run: KitRun) -> AsyncIterator[Any]:
    """Take in what was said to the run; it is kept before any model is asked."""
    asked = run.session.request
    if asked is not None:
        await run.session.add_user(asked["content"])
    else:
        # What the loop around this one has said by `context.add` is heard as well.
        await run.session.checkpoint()
    if run.session.issues:
        yield callout("Parts of this conversation were damaged and are mended.", "warning")
    async for shown in run.nest(discovered(run)):
        yield shown
    run.measure()
    async for shown in run.nest(clear_when_cold(run)):
        yield shown


async def _turns(run: KitRun) -> AsyncIterator[Any]:
    while True:
        await run.take_steers()
        async for shown in run.nest(_turn(run)):
            yield shown
        if run.is_over and not run.is_steered:
            return
        run.is_over = False


async def _turn(run: KitRun) -> AsyncIterator[Any]:
    """Make room if need be, ask, and do what the reply wants."""
    async for shown in run.nest(fold(run)):
        yield shown
    run.options.limits.check(steps=run.asked, cost=run.cost, most=run.context.max_turns)
    run.turn, failure = None, None
    async for shown in run.nest(told(run.nest(reply(run)))):
        if not isinstance(shown, Raised):
            yield shown
        elif isinstance(shown.error, ContextTooLong):
            failure = shown.error
        else:
            raise shown.error
    async for shown in run.nest(_next(run, failure)):
        yield shown


def _next(run: KitRun, failure: ContextTooLong | None) -> AsyncIterator[Any]:
    """Return what comes after a reply, or after a request that was too long.

    Raises:
        ContextTooLong: The second time, and when there is nothing to put together.
    """
    if failure is not None:
        if run.progress.has_recovered or not run.can_fold:
            raise too_long(run, failure) from failure
        run.progress.has_recovered = True
        return recover(run, failure)
    if run.turn is None:
        raise AgentError("the provider's stream ended without a reply")
    decision = decide(run.turn, run.progress, can_recover=run.can_fold)
    return _STEPS[decision.next](run, decision.warning)


async def _recover(run: KitRun, _: str) -> AsyncIterator[Any]:
    run.session.rollback()
    if run.turn is not None and run.turn.text:
        yield reset("there was no room for the reply")
    async for shown in run.nest(recover(run, None)):
        yield shown


async def _continue(run: KitRun, _: str) -> AsyncIterator[Any]:
    # Kept first: a reader may leave with what it is shown.
    await _answer_cut(run, {"role": "user", "content": GO_ON, "internal": True})
    yield step("Continuing past the output limit...")


async def _resend(run: KitRun, _: str) -> AsyncIterator[Any]:
    await run.session.checkpoint()
    nothing: tuple[Any, ...] = ()
    for shown in nothing:
        yield shown


async def _stop(run: KitRun, warning: str) -> AsyncIterator[Any]:
    run.is_over = True
    is_cut = run.turn is not None and run.turn.stop_reason == "max_tokens"
    await _answer_cut(run, text=CUT_OFF if is_cut else STOPPED)
    if warning:
        yield callout(warning, "warning")


async def _answer_cut(
    run: KitRun, otherwise: dict[str, Any] | None = None, *, text: str = CUT_OFF
) -> None:
    """Answer the calls of a reply that are not carried out; with none, say something else."""
    message = (cut_results(run.turn, text) if run.turn else None) or otherwise
    if message is not None:
        run.session.messages.append(message)
    await run.session.checkpoint()


async def _call(run: KitRun, _: str) -> AsyncIterator[Any]:
    turn = run.turn
    if turn is None:
        return
    if not run.context.current_runtime().keeps:
        # One that keeps the reply itself has it in the session with its results alone: a run that
        # ends while it waits for them, and that nobody drives then, leaves no call without one.
        await run.session.checkpoint()
    run.repetition.note(turn)
    async for shown in run.nest(answer(run, turn)):
        if isinstance(shown, Batch):
            run.is_over = run.repetition.is_over or shown.ends
        else:
            yield shown
    if run.repetition.is_over:
        yield callout("Stopped: the same calls were made again and again.", "warning")


_STEPS: dict[Next, Callable[[KitRun, str], AsyncIterator[Any]]] = {
    Next.CALL: _call,
    Next.CONTINUE: _continue,
    Next.RESEND: _resend,
    Next.RECOVER: _recover,
    Next.STOP: _stop,
}
"""What is done for each decision."""
