"""Bring a run that a pass owns to its terminal status, once: its history, its last words."""

from __future__ import annotations

import logging
from traceback import format_exception
from typing import Any

import orjson

from loops.context import Context
from loops.errors import ReplayDiverged, RunError
from loops.jsonable import clean_text, cut_text, jsonable
from loops.messages import Messages

from .closing_history import closing_messages
from .ending import Ending, failure_of
from .left import OUTCOMES, Left
from .run_record import RunStatus
from .runtime import QueueRuntime
from .wire import Part

OUTPUT_LIMIT = 1_000_000
"""How many characters of an output the record keeps; the log has the text whole."""

logger = logging.getLogger("loopmill.run")


async def settle(runtime: QueueRuntime, context: Context, ending: Ending) -> None:
    """Settle the run; one that ends in the middle of a turn leaves a history that is whole.

    Raises:
        RunLeft: When the pass owns its run no more.
    """
    # A loop may have put plain dicts there.
    context.messages = Messages.of(context.messages)
    # A loop that came to its end has said all that it wanted to, but each call has a result.
    turn = None if ending.left is Left.COMPLETED else runtime.last_turn
    context.messages.extend(closing_messages(context.messages, turn, runtime.answers.result_of))
    try:
        await _send(runtime, context, ending)
    except ReplayDiverged as error:
        # Its messages are refused; what failed first is what the run is told.
        await _send(runtime, context, Ending(Left.FAILED, ending.error or error))


async def _send(runtime: QueueRuntime, context: Context, ending: Ending) -> None:
    status = OUTCOMES[ending.left] or RunStatus.FAILED
    failure = failure_of(ending)
    usage = None if runtime.usage is None else runtime.usage.model_dump(exclude_none=True)
    output = _told(runtime.output if context.output is None else context.output)
    event: dict[str, Any] = {**failure} if failure else {"output_length": len(output)}
    if usage is not None:
        event["usage"] = usage
    runtime.say(f"run.{status}", event)
    fields: list[Part] = ["output", output, "usage", orjson.dumps(usage)]
    if failure:
        fields += ["error", orjson.dumps(failure)]
    await runtime.end("settle_run", status.value, *fields, is_last=True)
    if failure is None:
        logger.info("✓ run %s %s", context.run, status)
    else:
        _report(context.run, status, failure, ending.error)


def _report(run_id: str, status: str, failure: dict[str, str], error: BaseException | None) -> None:
    """Say why a run did not complete; with the traceback where the user's own code raised."""
    is_theirs = error is not None and (not isinstance(error, RunError) or error.__cause__)
    where = "".join(format_exception(error)) if is_theirs else failure["message"]
    # Half a character in an error's text must not keep the log from being written.
    logger.warning("! run %s %s %s: %s", run_id, status, failure["code"], clean_text(where))


def _told(output: object) -> str:
    if isinstance(output, str):
        return cut_text(clean_text(output), OUTPUT_LIMIT)
    return cut_text(orjson.dumps(jsonable(output)).decode(), OUTPUT_LIMIT)
