import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from loops.context import Context
from loops.errors import SetupError
from loops.loop_shape import Loop, begin, check_loop
from loops.testing import collect


async def echo(context: Context) -> AsyncGenerator[object]:
    yield context.last_message


def passes_on(context: Context) -> AsyncIterator[object]:
    return echo(context)


def may_pass_on(context: Context, loop: Loop | None = echo) -> Any:
    if loop is None:
        return None
    return loop(context)


def wrapped(loop: Loop) -> Loop:
    @functools.wraps(loop)
    def wrapper(context: Context) -> Any:
        return loop(context)

    return wrapper


async def named(context: Context, name: str = "x") -> AsyncGenerator[object]:
    yield name


class Echo:
    """An object that can be called."""

    async def __call__(self, context: Context) -> AsyncGenerator[object]:
        yield context.last_message

    async def method(self, context: Context) -> AsyncGenerator[object]:
        yield context.last_message


LOOPS = [
    echo,
    passes_on,
    may_pass_on,
    lambda context: named(context, "z"),
    wrapped(echo),
    named,
    functools.partial(named, name="y"),
    Echo(),
    Echo().method,
]


@pytest.mark.parametrize("loop", LOOPS)
def test_whatever_gives_events_of_a_context_is_a_loop(loop: Loop) -> None:
    check_loop(loop, subject="it")

    assert isinstance(begin(loop, Context()), AsyncIterator)


async def coroutine(context: Context) -> None: ...


def generator(context: Context) -> Iterator[int]:
    yield 1


def plain(context: Context) -> None: ...


def unwritten(context: Context) -> AsyncIterator[object]:
    raise NotImplementedError


def returns_early(context: Context) -> None:
    if context.messages:
        return
    context.add("x")


def listed(context: Context) -> list[object]:
    return [context]


def awaited(context: Context) -> Any:
    return coroutine(context)


async def without() -> AsyncGenerator[object]:
    yield 1


async def with_two(context: Context, more: object) -> AsyncGenerator[object]:
    yield more


@pytest.mark.parametrize(
    ("loop", "problem"),
    [
        (coroutine, "it is a coroutine function: it has no yield; yield what happens"),
        (generator, "it is a plain generator; write async def in the place of def"),
        (plain, "it is a plain def; write async def with yield"),
        (unwritten, "it is a plain def"),
        (returns_early, "it is a plain def"),
        (lambda context: None, "it is a plain def"),
        (max, "it is a plain def"),
        (without, "nothing else: too many positional arguments; let it take one parameter"),
        (with_two, "nothing else: missing a required argument: 'more'"),
        (3, "an async generator function of a context; not 3"),
    ],
)
def test_what_is_no_loop_is_refused_with_the_mend(loop: object, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        check_loop(loop, subject="it")


@pytest.mark.parametrize(
    ("loop", "given"), [(awaited, "coroutine"), (listed, "list"), (plain, "NoneType")]
)
def test_what_gives_no_events_after_all_is_refused(
    loop: Callable[[Context], object], given: str
) -> None:
    wrong: Any = loop

    with pytest.raises(SetupError, match=f"'{loop.__name__}' gives a {given} and no events"):
        begin(wrong, Context())


async def test_a_loop_that_was_begun_gives_its_events() -> None:
    assert await collect(begin(passes_on, Context(messages=["hi"]))) == ["hi"]  # type: ignore[arg-type]  # strings are messages
