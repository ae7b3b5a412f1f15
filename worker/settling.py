"""Bring a run that a pass owns to its terminal status, once: its history, its last words."""

from __future__ import annotations

import logging
from traceback import format_exception
from typing import Any, TypeGuard

import orjson

from loops.context import Context
from loops.errors import ProviderError, ReplayDiverged, RunError
from loops.jsonable import clean_text, cut_text
from loops.messages import Messages
from loops.output import told_output

from .closing_history import closing_messages
from .ending import Ending, failure_of
from .left import OUTCOMES, Left
from .run_record import RunStatus
from .runtime import QueueRuntime
from .wire import Part
from .writer import GO_ON

OUTPUT_LIMIT = 1_000_000
"""How many characters of an output the record keeps; the log has the text whole."""

logger = logging.getLogger("loopmill.run")


async def settle(
    runtime: QueueRuntime, context: Context, ending: Ending, *, seconds: float
) -> bool:
    """Settle the run; one that ends in the middle of a turn leaves a history that is whole.

    Says whether it is settled: when somebody has said something to a run that would be complete, it
    is not.

    Args:
        runtime: The pass.
        context: What its loop had.
        ending: How the loop ended.
        seconds: For how long the run has computed.

    Raises:
        RunLeft: When the pass owns its run no more.
    """
    # A loop may have put plain dicts there.
    context.messages = Messages.of(context.messages)
    # A loop that came to its end has said all that it wanted to, but each call has a result.
    turn = None if ending.left is Left.COMPLETED else runtime.last_turn
    context.messages.extend(closing_messages(context.messages, turn, runtime.answers.result_of))
    try:
        return await _send(runtime, context, ending, seconds)
    except ReplayDiverged as error:
        # Its messages are refused; what failed first is what the run is told.
        failed = Ending(Left.FAILED, ending.error or error)
        return await _send(runtime, context, failed, seconds)


async def _send(runtime: QueueRuntime, context: Context, ending: Ending, seconds: float) -> bool:
    status = OUTCOMES[ending.left] or RunStatus.FAILED
    failure = failure_of(ending)
    spent = runtime.tally.usage
    usage = None if spent is None else spent.model_dump(exclude_none=True)
    output = _told(runtime.output if context.output is None else context.output)
    event: dict[str, Any] = {**failure} if failure else {"output_length": len(output)}
    if usage is not None:
        event["usage"] = usage
    runtime.say(f"run.{status}", event)
    fields: list[Part] = ["output", output, "usage", orjson.dumps(usage)]
    fields += ["spent", orjson.dumps(runtime.tally.spent(seconds))]
    fields += ["turns", orjson.dumps(list(runtime.tally.replies))]
    if failure:
        fields += ["error", orjson.dumps(failure)]
    told: list[Part] = [status.value, int(runtime.steering.is_ignored), *fields]
    answer = await runtime.end("settle_run", *told, is_last=True)
    if answer[0] == GO_ON:
        return False
    if failure is None:
        logger.info("✓ run %s %s", context.run, status)
    else:
        _report(context.run, status, failure, ending.error)
    return True


def _report(run_id: str, status: str, failure: dict[str, str], error: BaseException | None) -> None:
    """Say why a run did not complete; with the traceback where the user's own code raised."""
    where = "".join(format_exception(error)) if _is_a_fault(error) else failure["message"]
    # Half a character in an error's text must not keep the log from being written.
    logger.warning("! run %s %s %s: %s", run_id, status, failure["code"], clean_text(where))


def _is_a_fault(error: BaseException | None) -> TypeGuard[BaseException]:
    """Whether users' code raised what nobody meant: no failure of a service, no refusal."""
    cause = error.__cause__ if isinstance(error, RunError) else error
    is_meant = isinstance(getattr(cause, "status_code", None), int)
    return cause is not None and not isinstance(cause, ProviderError) and not is_meant


def _told(output: object) -> str:
    return cut_text(clean_text(told_output(output)), OUTPUT_LIMIT)
