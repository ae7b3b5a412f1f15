"""Carry out one call of a tool: whatever the tool does, there is exactly one result."""

import asyncio
import inspect
import logging
import random
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from traceback import format_exception
from typing import Any, cast

from .aggregate import LastAggregator
from .blocks import has_pictures
from .closing import closing, closing_opened
from .errors import AgentError, HookDeferred, InvalidArguments, ToolTimedOut
from .guard import Raised, outcome_of, outcome_of_call, unwrapped
from .jsonable import MAX_TEXT, bounded, clean_text
from .messages import ToolResult
from .tasks import in_thread
from .time_limit import limited
from .tool_context import ToolContext, running_call, running_context
from .tool_schema import innermost
from .tools import Tool
from .wire import plain_value

FIRST_PAUSE = timedelta(milliseconds=250)
"""The shortest pause before a tool that failed is called again; it doubles, with as much jitter."""

LONGEST_PAUSE = timedelta(seconds=30)

logger = logging.getLogger("loopmill.tool")


@dataclass(frozen=True, slots=True)
class Given:
    """What a call gave, as JSON can carry it."""

    content: Any
    told: Any = None
    """What the model is told instead, where that is something else."""


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
    outcome = _told(tool, await _outcome(tool, arguments, context, limit))
    is_error = isinstance(outcome, Raised)
    if isinstance(outcome, Raised) and not isinstance(outcome.error, AgentError):
        # The model reads one line of it; whoever mends the tool needs the place.
        trace = clean_text("".join(format_exception(outcome.error)))
        logger.warning("! tool %s raised: %s", tool.name, trace)
    given = Given(outcome.text) if isinstance(outcome, Raised) else outcome
    call, deferred = context.call, _deferred(outcome)
    result = ToolResult(call.key, call.id, tool.name, given.content, is_error=is_error)
    raised = unwrapped(outcome.error) if isinstance(outcome, Raised) else None
    return replace(result, deferred=deferred, told=given.told, exception=raised)


def _told(tool: Tool, outcome: object) -> Given | Raised:
    """Return what came of a call; one that cannot be told is a failure, but done all the same."""
    if isinstance(outcome, Raised):
        return outcome
    return outcome_of_call(partial(_given, tool, outcome))


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
    token, around = running_call.set(context.call), running_context.set(context)
    scope = asyncio.timeout(seconds)
    is_over = False
    try:
        async with closing_opened(), scope:
            with limited(scope):
                value = await _value(tool, keywords, context)
        is_over = True
    except TimeoutError as error:
        if scope.expired():
            raise ToolTimedOut(f"{tool.name!r} took longer than {limit}") from error
        raise
    finally:
        running_call.reset(token)
        running_context.reset(around)
        if not is_over:
            context.cancelled.set()
    return value


def _bounded(value: Any) -> Any:
    """Return the value cut to what a model is told; a picture cannot be cut, and may be longer."""
    return bounded(value, MAX_PICTURES if has_pictures(value) else MAX_TEXT)


MAX_PICTURES = 5 * 1024 * 1024
"""How many characters a result may have that holds pictures or documents."""


class _Pieces:
    """What a call gives piece by piece: told at once, and gathered."""

    def __init__(self, tool: Tool, context: ToolContext) -> None:
        self._gathered = LastAggregator[object]() if tool.aggregator is None else tool.aggregator()
        self._context = context

    def take(self, piece: object) -> None:
        self._context.give(piece)
        self._gathered.feed(piece)

    @property
    def result(self) -> object:
        return self._gathered.snapshot()

    @property
    def told(self) -> object:
        return self._gathered.get_model_input()


def _given(tool: Tool, value: object) -> Given:
    """Return what a call gave, and what its model is told of it."""
    pieces = value if isinstance(value, _Pieces) else None
    result = value if pieces is None else pieces.result
    content = _bounded(plain_value(result))
    if tool.to_model_input is not None:
        told = tool.to_model_input(result)
    elif pieces is not None:
        told = pieces.told
    else:
        return Given(content)
    other = _bounded(plain_value(told))
    if other == content:
        return Given(content)
    # To be told nothing is something else than to be told nothing else.
    return Given(content, "null" if other is None else other)


async def _value(tool: Tool, keywords: dict[str, Any], context: ToolContext) -> object:
    """Return what the function gives: a value, or all of its pieces."""
    function = tool.function
    in_loop = _runs_in_loop(function)
    if tool.context_parameter is not None:
        given = context if in_loop else _from_thread(context)
        keywords = {**keywords, tool.context_parameter: given}
    call = partial(function, **keywords)
    if in_loop:
        return await _settled(call(), tool, context)
    outcome = await in_thread(
        partial(_in_thread, call, tool, _from_thread(context)), name=f"tool {tool.name}"
    )
    if isinstance(outcome, Raised):
        raise outcome.error
    return await _settled(outcome, tool, context)


async def _settled(value: object, tool: Tool, context: ToolContext) -> object:
    if inspect.isawaitable(value):
        value = await cast("Awaitable[object]", value)
    if not isinstance(value, AsyncIterable):
        return value
    pieces, source = _Pieces(tool, context), cast("AsyncIterable[object]", value)
    async with closing(source):
        async for piece in source:
            pieces.take(piece)
    return pieces


def _in_thread(call: Callable[[], object], tool: Tool, context: ToolContext) -> object:
    value = call()
    if not inspect.isgenerator(value):
        return value
    pieces = _Pieces(tool, context)
    for piece in cast("Iterable[object]", value):
        pieces.take(piece)
    return pieces


def _from_thread(context: ToolContext) -> ToolContext:
    loop = asyncio.get_running_loop()

    def sink(value: object, *, kept: bool) -> None:
        loop.call_soon_threadsafe(partial(context.sink, value, kept=kept))

    return replace(context, sink=sink)


def _runs_in_loop(function: Callable[..., Any]) -> bool:
    inner = innermost(function)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
