"""What a loop has to be: an asynchronous generator function of the run's context."""

import dis
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable
from itertools import pairwise
from typing import Any, cast

from .context import Context
from .errors import SetupError
from .tool_schema import innermost

Loop = Callable[[Context], AsyncIterator[object]]
"""A loop: what it yields are events, or what `as_event` makes events of."""


def check_loop(loop: object, *, subject: str) -> None:
    """Pass if the value can be driven as a loop.

    A plain `def` may return another loop's events; what else it returns is seen by `begin`.

    Raises:
        SetupError: When it is none; the text begins with the subject and names the mend.
    """
    if not callable(loop):
        raise SetupError(
            f"{subject} is an Agent, a class of one, or an async generator function of a context; "
            f"not {loop!r}"
        )
    inner = innermost(loop)
    if inspect.iscoroutinefunction(inner):
        raise SetupError(f"{subject} is a coroutine function: it has no yield; yield what happens")
    if inspect.isgeneratorfunction(inner):
        raise SetupError(f"{subject} is a plain generator; write async def in the place of def")
    if not (inspect.isasyncgenfunction(inner) or _returns_something(inner)):
        raise SetupError(f"{subject} is a plain def; write async def with yield")
    _check_parameters(loop, subject)


def begin(loop: Loop, context: Context) -> AsyncIterator[object]:
    """Call the loop and return its events; it runs when the first of them is asked for.

    Raises:
        SetupError: When it is no asynchronous generator after all.
    """
    events = cast("object", loop(context))
    if isinstance(events, AsyncIterable):
        return cast("AsyncIterator[object]", events)
    if inspect.iscoroutine(events):
        events.close()
    name = getattr(loop, "__qualname__", repr(loop))
    raise SetupError(
        f"the loop {name!r} gives a {type(events).__name__} and no events; "
        "write async def with yield"
    )


def _returns_something(function: Callable[..., Any]) -> bool:
    """Say whether a plain function has a return that is not None, as its compiled code tells."""
    code = getattr(function, "__code__", None)
    steps = [] if code is None else list(dis.get_instructions(code))
    for before, step in pairwise(steps):
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        is_none = before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "RETURN_VALUE" and not is_none:
            return True
    return False


def _check_parameters(loop: Callable[..., Any], subject: str) -> None:
    try:
        inspect.signature(loop).bind(object())
    except TypeError as error:
        raise SetupError(
            f"{subject} is called with the run's context and nothing else: {error}; "
            "let it take one parameter, the context"
        ) from error
