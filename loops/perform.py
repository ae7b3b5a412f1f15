"""Carry out one call of a tool: whatever the tool does, there is exactly one result."""

import asyncio
import inspect
import logging
import random
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from traceback import format_exception
from typing import Any, cast

from .errors import AgentError, HookDeferred, InvalidArguments, ToolTimedOut
from .guard import Raised, outcome_of
from .jsonable import bounded, clean_text
from .messages import ToolResult
from .tasks import in_thread
from .time_limit import limited
from .tool_context import ToolContext, running_call
from .tools import Tool, innermost
from .wire import plain_value

FIRST_PAUSE = timedelta(milliseconds=250)
"""The shortest pause before a tool that failed is called again; it doubles, with as much jitter."""

LONGEST_PAUSE = timedelta(seconds=30)

logger = logging.getLogger("loopmill.tool")


async def perform(
    tool: Tool, arguments: str, context: ToolContext, *, timeout: timedelta | None = None
) -> ToolResult:
    """Call the tool and return its result; what it raises is an error result.

    Args:
        tool: The tool; its own time limit goes before the other one.
        arguments: The arguments as the model wrote them.
        context: What the tool may know; `cancelled` is set if the call does not come to its end.
        timeout: The limit for a tool that names none.

    Raises:
        CancelledError: When the task was cancelled from outside; the tool has been told.
    """
    limit = tool.timeout or timeout
    outcome = await _outcome(tool, arguments, context, limit)
    is_error = isinstance(outcome, Raised)
    if isinstance(outcome, Raised) and not isinstance(outcome.error, AgentError):
        # The model reads one line of it; whoever mends the tool needs the place.
        trace = clean_text("".join(format_exception(outcome.error)))
        logger.warning("! tool %s raised: %s", tool.name, trace)
    content = outcome.text if isinstance(outcome, Raised) else outcome
    deferred = _deferred(outcome)
    call = context.call
    return ToolResult(call.key, call.id, tool.name, content, is_error=is_error, deferred=deferred)


def _deferred(outcome: object) -> str:
    """Return the label of the hook for whose answer another run will wait."""
    error = outcome.error if isinstance(outcome, Raised) else None
    return error.label if isinstance(error, HookDeferred) else ""


def longest(tool: Tool, timeout: timedelta) -> timedelta:
    """Return how long the tool may take with all its tries; `timeout` where it names no limit."""
    tries = tool.retries + 1
    pauses = sum((2 * _pause(retry) for retry in range(tool.retries)), timedelta(0))
    return (tool.timeout or timeout) * tries + pauses


async def _outcome(
    tool: Tool, arguments: str, context: ToolContext, limit: timedelta | None
) -> object:
    """Call the tool until it does not fail, as often as it may be called."""
    tried = 0
    while True:
        # A thread that is out of time goes on, so each try has a flag of its own.
        flag = context.cancelled if tried == tool.retries else threading.Event()
        attempt = replace(context, attempt=context.attempt + tried, cancelled=flag)
        outcome = await outcome_of(partial(_called, tool, arguments, attempt, limit))
        if not isinstance(outcome, Raised) or tried >= tool.retries:
            return outcome
        if isinstance(outcome.error, InvalidArguments | HookDeferred):
            return outcome
        logger.info("↻ tool %s failed, try %d: %s", tool.name, tried + 1, outcome.text)
        spread = 1 + random.random()  # noqa: S311 - no secret hangs on it
        await asyncio.sleep(_pause(tried).total_seconds() * spread)
        tried += 1


def _pause(tried: int) -> timedelta:
    return min(FIRST_PAUSE * (1 << tried), LONGEST_PAUSE)


async def _called(
    tool: Tool, arguments: str, context: ToolContext, limit: timedelta | None
) -> object:
    keywords = tool.validated(arguments)
    seconds = None if limit is None else limit.total_seconds()
    token = running_call.set(context.call)
    scope = asyncio.timeout(seconds)
    is_over = False
    try:
        async with scope:
            with limited(scope):
                value = await _value(tool, keywords, context)
        is_over = True
    except TimeoutError as error:
        if scope.expired():
            raise ToolTimedOut(f"{tool.name!r} took longer than {limit}") from error
        raise
    finally:
        running_call.reset(token)
        if not is_over:
            context.cancelled.set()
    return bounded(plain_value(value))


async def _value(tool: Tool, keywords: dict[str, Any], context: ToolContext) -> object:
    function = tool.function
    in_loop = _runs_in_loop(function)
    if tool.context_parameter is not None:
        given = context if in_loop else _from_thread(context)
        keywords = {**keywords, tool.context_parameter: given}
    call = partial(function, **keywords)
    if in_loop:
        return await _settled(call(), context)
    outcome = await in_thread(
        partial(_in_thread, call, _from_thread(context)), name=f"tool {tool.name}"
    )
    if isinstance(outcome, Raised):
        raise outcome.error
    return await _settled(outcome, context)


async def _settled(value: object, context: ToolContext) -> object:
    if inspect.isawaitable(value):
        value = await cast("Awaitable[object]", value)
    if not isinstance(value, AsyncIterable):
        return value
    last: object = None
    async for last in cast("AsyncIterable[object]", value):
        context.give(last)
    return last


def _in_thread(call: Callable[[], object], context: ToolContext) -> object:
    value = call()
    if not inspect.isgenerator(value):
        return value
    last: object = None
    for last in cast("Iterable[object]", value):
        context.give(last)
    return last


def _from_thread(context: ToolContext) -> ToolContext:
    loop = asyncio.get_running_loop()

    def sink(value: object, *, kept: bool) -> None:
        loop.call_soon_threadsafe(partial(context.sink, value, kept=kept))

    return replace(context, sink=sink)


def _runs_in_loop(function: Callable[..., Any]) -> bool:
    inner = innermost(function)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
