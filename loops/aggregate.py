"""What becomes of the pieces that a streaming tool gives: its result, and what the model is told.

A tool says it by its return type (`-> ai.StreamingTextTool`) or by `@ai.tool(aggregator=…)`. One
that says nothing has its last piece as its result.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from functools import partial
from typing import (
    Annotated,
    Any,
    Generic,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from .events import AgentEvent
from .guard import Raised, outcome_of_call
from .hydrator import MessageBundle, MessageHydrator

Item = TypeVar("Item")
Result = TypeVar("Result")
ModelInput = TypeVar("ModelInput")


class Aggregator(Generic[Item, Result, ModelInput]):
    """Gathers what one call of a tool gives. Override `feed` and `snapshot`."""

    def feed(self, item: Item) -> None:
        """Take the next piece."""
        raise NotImplementedError

    def snapshot(self) -> Result:
        """Return the result so far."""
        raise NotImplementedError

    def get_model_input(self) -> ModelInput:
        """Return what the model is told of the result so far."""
        return self.to_model_input(self.snapshot())

    @classmethod
    def to_model_input(cls, result: Result) -> ModelInput:
        """Return what the model is told of a result: the result itself."""
        return cast("ModelInput", result)


class ConcatAggregator(Aggregator[str, str, str]):
    """All pieces of text, one after the other."""

    def __init__(self, delim: str = "") -> None:
        self._delim = delim
        self._pieces: list[str] = []

    def feed(self, item: str) -> None:
        """Take the next piece."""
        self._pieces.append(item)

    def snapshot(self) -> str:
        """Return the text so far."""
        return self._delim.join(self._pieces)


class LastAggregator(Aggregator[Item, Item | None, Item | None]):
    """The last piece; None before the first."""

    def __init__(self) -> None:
        self._last: Item | None = None

    def feed(self, item: Item) -> None:
        """Take the next piece."""
        self._last = item

    def snapshot(self) -> Item | None:
        """Return the last piece."""
        return self._last


class MessageAggregator(Aggregator[AgentEvent, MessageBundle, str]):
    """What an agent says and does whose events the tool gives; the model is told its last text."""

    def __init__(self) -> None:
        self._hydrator = MessageHydrator()

    def feed(self, item: AgentEvent) -> None:
        """Take the next event."""
        self._hydrator.feed(item)

    def snapshot(self) -> MessageBundle:
        """Return the messages so far."""
        return MessageBundle(messages=self._hydrator.messages)

    @classmethod
    def to_model_input(cls, result: MessageBundle) -> str:
        """Return the last text of the agent."""
        return result.text


class Aggregate:
    """Marks a return type: `Annotated[AsyncGenerator[str], Aggregate(ConcatAggregator)]`."""

    def __init__(self, factory: Callable[..., Any], **options: Any) -> None:
        self.factory = factory
        self.options: Mapping[str, Any] = options

    def __call__(self) -> Any:
        """Return a new aggregator."""
        return self.factory(**self.options)


StreamingTextTool = Annotated[AsyncGenerator[str], Aggregate(ConcatAggregator)]
"""The return type of a tool whose pieces make a text."""

StreamingStatusTool = Annotated[AsyncGenerator[Item], Aggregate(LastAggregator)]
"""The return type of a tool whose last piece is the result, and whose others tell how far it is."""

SubAgentTool = Annotated[AsyncGenerator[AgentEvent], Aggregate(MessageAggregator)]
"""The return type of a tool that gives the events of an agent inside of it."""


def gathered(name: str, hint: Any) -> tuple[Aggregate | None, Any]:
    """Return how a tool's return type says that its pieces are gathered, and what that makes.

    Raises:
        TypeError: When it says so twice.
    """
    if get_origin(hint) is not Annotated:
        return None, _last_of(hint)
    inner, *marks = get_args(hint)
    marks = [mark for mark in marks if isinstance(mark, Aggregate)]
    if len(marks) > 1:
        raise TypeError(f"the return type of the tool {name!r} says twice how to gather its pieces")
    if not marks:
        return None, _last_of(inner)
    items = get_args(inner)
    return marks[0], result_type(marks[0].factory, items[0] if items else Any)


_STREAMS = (AsyncGenerator, AsyncIterator, AsyncIterable, Generator, Iterator)


def _last_of(hint: Any) -> Any:
    """Return the type of the result of a tool that says nothing of its pieces: the last one."""
    items = get_args(hint)
    return items[0] | None if get_origin(hint) in _STREAMS and items else hint


def result_type(factory: Any, item: Any) -> Any:
    """Return the type of what an aggregator makes of items of a type, as far as it says it."""
    snapshot = getattr(factory, "snapshot", None)
    hints = {} if snapshot is None else outcome_of_call(partial(get_type_hints, snapshot))
    told: Any = Any if isinstance(hints, Raised) else hints.get("return", Any)
    if isinstance(told, TypeVar):
        return item
    return told[item] if len(getattr(told, "__parameters__", ())) == 1 else told
